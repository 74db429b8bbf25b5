/* work: one run, and the state machine that takes it from request to result.
 *
 *	MAKING --cell made--> STAGING --all files put--> COMPILING --ok--> RUNNING
 *	   │                     (no compile step: straight to RUNNING)       │
 *	   │                                                       program ended
 *	   │                                                                  ▼
 *	   └──── anything fails ──────▶ DONE ◀── GETTING ◀── SETTLING (usage and list of files)
 *
 * Compilers are no guests: for a vm cell they run in a container cell before it, and what they made
 * goes over by way of us: COMPILING --ok--> CARRYING --all fetched--> MAKING, with the other cell.
 *
 * Where the isolation was left to us, a run that failed for want of something that only a container
 * has starts again in one: RUNNING --> MAKING (again.c).
 *
 * A work may also be for a cell's files alone, without a program: STAGING --asked--> SERVING --> DONE
 * (files.c).
 *
 * Only work_goto() changes the step. */
#ifndef HOTCELL_ENGINE_WORK_H
#define HOTCELL_ENGINE_WORK_H

#include "engine/engine.h"

enum work_step {
	WORK_MAKING,
	WORK_STAGING,
	WORK_COMPILING,
	WORK_CARRYING,
	WORK_RUNNING,
	WORK_SETTLING,
	WORK_GETTING,
	WORK_SERVING,
	WORK_DONE,
};

struct collected {
	struct buf bytes;
	bool truncated;
};

struct hotcell_work {
	struct hotcell *engine;
	struct hotcell_request request;
	struct tool tool;
	struct hotcell_cell *cell;
	bool owns_cell;
	enum work_step step;
	struct cell_wish wish;         /* the program's cell */
	char why[160];                 /* why that is not a vm, if it might have been */
	bool compiles_apart;           /* in a cell of its own */
	bool compiled;                 /* that cell is behind us */
	char **raw_argv;               /* run exactly this: for probing; its own */
	const struct profile *profile; /* of the warm machine that is to serve it; NULL: none */
	bool by_driver;                /* one that waits in the cell is to serve it */
	bool continues;                /* where a run before has left it: its state was kept */
	struct buf warm_request;       /* for that machine's driver, or for that one */
	bool may_be_quiet; /* that machine may have it without the keeper (wire/vmm_warm.h) */
	bool is_quiet;     /* it has it so */
	bool has_gone_out; /* it had */
	int64_t asked_us;  /* when it was asked to begin, in this way or by the keeper */
	uint64_t quiet_us; /* for so long it was quiet */
	bool clears;       /* a cell that it does not own is emptied after it */
	int snapshot_fd;   /* of that; or to be filled, if it runs to make one; -1 */
	char *entry;
	bool is_for_files;          /* no program is run */
	struct hotcell_files files; /* if so; its path is `entry` */

	struct limits limits;
	struct limits step_limits; /* of what runs now: compiler or program */
	uint64_t max_output;

	/* Staging: where we are. */
	struct staging staging;
	size_t stage_at;
	size_t stage_offset;
	int stage_fd;

	/* Carrying: which item of the staging is being fetched. */
	size_t carry_at;
	struct buf carried;
	uint64_t carried_bytes;
	bool carry_asked; /* a GET is not answered yet */

	/* Input for the program. */
	struct source stdin_source;
	size_t stdin_at;
	bool stdin_done;
	bool stdin_polled;   /* it is in the epoll set */
	uint8_t *stdin_kept; /* read from stdin_fd, but there was no room in the cell */
	size_t stdin_kept_len;

	/* Backstop: if the keeper does not tell that the time is over, we do. */
	struct timer timer;
	bool backstop_hit;
	bool cancelled;
	bool interrupts; /* it is to be interrupted as soon as it can be */
	int cancel_tries;
	bool paused;  /* its output is not wanted now */
	bool is_late; /* it is taken nonetheless: it was paused for longer than it may run */

	/* What came of it. */
	struct collected out[2][2]; /* [compiling][stream] */
	bool has_streamed;          /* some of it was passed on at once */
	bool has_overflown;         /* it is more than the result holds */
	int overflow_fd;            /* of the caller's, for all of it; -1: none */
	struct msg_exited exited;
	struct usage usage;
	bool have_usage;
	bool have_list;
	size_t get_at;
	uint64_t got_bytes;
	int get_fd;
	bool get_is_lent;  /* it is the caller's */
	uint64_t get_left; /* of the file's bytes */
	int out_dir_fd;
	bool ended_without_exit; /* the cell died under the program */
	struct hotcell_result *result;
	struct err failure;
};

/* ---- work.c ---- */
struct hotcell_work *work_new(struct hotcell *h, const struct hotcell_request *request);
/* A cell for it: its own, or the request's if that suits. */
int work_take_cell(struct hotcell_work *work, const struct cell_wish *wish, struct err *e);
/* Gives it back, or ends it. */
void work_leave_cell(struct hotcell_work *work);
/* Ends the work without a result. */
void work_fail(struct hotcell_work *work, const struct err *e);
void work_finish(struct hotcell_work *work);
void work_free(struct hotcell_work *work);
/* Whether a warm machine that serves it serves no other. */
bool work_is_machines_last(const struct hotcell_work *work);

/* ---- run.c ---- */
void work_goto(struct hotcell_work *work, enum work_step step);
void work_enter_cell(struct hotcell_work *work);
void work_on_time(struct timer *timer);

/* ---- start.c ---- */
/* From the request to a run in a cell of wish.kind. */
int start_set_out(struct hotcell_work *work, struct err *e);

/* ---- stage.c ---- */
/* Sends files until all are sent (1), there is no room (0), or it failed (-1: work_fail called). */
int stage_continue(struct hotcell_work *work);
void stage_stdin_begin(struct hotcell_work *work);
void stage_stdin_continue(struct hotcell_work *work);
void stage_stdin_end(struct hotcell_work *work);

/* ---- files.c: a cell's files, while nothing runs in it ---- */
/* Sends what is to be put, and then asks. */
void files_continue(struct hotcell_work *work);
/* False if the cell must not send this. */
bool files_on_frame(struct hotcell_work *work, uint8_t type, struct frame_in *in);
void files_on_time(struct hotcell_work *work);
/* Of a program that was not started. Files that do not fit, or are in each other's way, are for whoever sent them to
 * mend. */
void files_why_not_begun(const struct msg_exited *m, struct err *ret);
void files_cancel(struct hotcell_work *work);

/* ---- carry.c ---- */
/* Where in a workspace compilers leave their programs, if those are to be carried; else in /tmp. */
#define STAGE_BUILD_DIR ".hotcell"
/* Asks the compiler's cell what there is. */
int carry_begin(struct hotcell_work *work, struct err *e);
int carry_file(struct hotcell_work *work, const struct msg_file *m);
/* Asks for the next file: 1 asked, 0 there is none left, -1 the cell does not take it. */
int carry_next(struct hotcell_work *work);
int carry_data(struct hotcell_work *work, const struct msg_data *m);
int carry_got(struct hotcell_work *work, uint32_t error);

/* ---- again.c ---- */
/* Whether the run, which has just ended, is to be made again in a container; work->why says why. */
bool again_wanted(struct hotcell_work *work, const struct msg_exited *m);
/* A program that failed for want of a call is told which. */
void again_advise(struct hotcell_work *work, const struct msg_exited *m);
/* Forgets all that has come of it. */
void again_forget(struct hotcell_work *work);

/* ---- collect.c ---- */
/* Opens the output directory, before anything is run. */
int collect_prepare(struct hotcell_work *work, struct err *e);
void collect_output(struct hotcell_work *work, const struct msg_output *m);
int collect_file(struct hotcell_work *work, const struct msg_file *m);
/* Asks for the next generated file; false if there is none left. A file that cannot be written is
 * told in the work's failure, or in the file's own error. */
bool collect_next(struct hotcell_work *work);
int collect_data(struct hotcell_work *work, const struct msg_data *m);
void collect_got(struct hotcell_work *work, uint32_t error);
/* No more comes from the cell: what of its files is missing by now is told. Nothing to do if all of them came. */
void collect_give_up(struct hotcell_work *work);
/* Closes the file that is being written, if it is ours. */
void collect_let_go(struct hotcell_work *work);
/* Holes stay holes, where there can be any. 0, or -1 with errno. */
int collect_write(int fd, const struct msg_data *m);

/* ---- usage.c ---- */
/* Whether nobody need be asked; then work->usage is set. */
bool usage_is_known(struct hotcell_work *work);
/* What the warden says of its cell. */
void usage_note(struct hotcell_work *work, const struct usage *usage);

/* ---- result.c ---- */
void result_begin(struct hotcell_work *work);
void result_note_compile(struct hotcell_work *work);
/* Fills in how it ended. */
void result_complete(struct hotcell_work *work);

#endif
