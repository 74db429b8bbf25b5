/* inner: what the files of the keeper share. */
#ifndef HOTCELL_KEEPER_INNER_H
#define HOTCELL_KEEPER_INNER_H

#include "keeper/driver.h"
#include "keeper/files.h"
#include "keeper/keeper.h"
#include "keeper/program.h"
#include "keeper/warm.h"

/* LEAVING: the run is over and has been told, its process is not gone yet. */
enum state { IDLE, RUNNING, ENDING, LEAVING };
enum { LEAVE_US = 5000 };

struct keeper {
	const struct keeper_options *options;
	struct files files;
	struct program program;
	struct warm warm;
	bool in_warm; /* the run is a warm machine's */
	struct driver driver;
	enum waited waited; /* the run is that of a driver that had waited for it */

	/* Kept state: see session.c. */
	bool keeps;          /* the run's interpreter stays */
	bool has_session;    /* there was such a run in this cell */
	bool is_interrupted; /* the run's time is over, and it has been told so */
	int interruptions;   /* so often */
	bool stdin_waits;    /* nobody has opened its input yet */
	bool is_kept;        /* for EXITED */
	enum state state;
	int signal_fd;
	bool hung_up; /* the engine or the warden is gone: leave */

	enum ended_by ended_by;
	int64_t started_us;
	int64_t deadline_us;
	int64_t last_kill_us;
	int64_t leave_us; /* LEAVING: when its process is killed; 0: it has been */
	uint64_t output_max;
	uint64_t file_max;
	bool list_when_done;
	uint64_t output_seen[2];

	/* Of a warm machine that had to end after its run. */
	int told_status;
	bool is_told;
	bool exited_warm;
	bool nothing_new;
	struct {
		const uint8_t *data;
		size_t len;
	} last[2]; /* output that goes with EXITED */

	struct err put_error;  /* kind is ERR_NONE while staging goes well */
	struct err warm_error; /* likewise, of a machine that is to serve the next run */

	/* Input for the program that its pipe had no room for yet. While there is some, nothing is
	 * read from the engine: back-pressure. */
	uint8_t stdin_data[FRAME_MAX];
	size_t stdin_at;
	size_t stdin_len;
	bool stdin_ends;
};

/* ---- keeper.c ---- */
void keeper_end_program(struct keeper *k, enum ended_by why);
/* Ready for what comes next. */
void keeper_become_idle(struct keeper *k);
void keeper_reap(struct keeper *k);
/* Sends, and waits as long as the engine takes; the clock and the lifeline go on meanwhile. */
int keeper_send(void *context, const struct frame_out *frame);

void keeper_interrupt(const struct keeper *k);
void keeper_feed_stdin(struct keeper *k);

/* ---- waiting.c: what waits for its run ---- */
/* EXEC_WARM_START and EXEC_WARM_START_ONCE: a machine, in a cell that is as it was when it was made, whoever was in it
 * before and whatever that one had said about itself; or a driver. Not answered: if it fails, so will the first run of a
 * machine, and say why; and without a driver the first run starts as any other. */
void waiting_start_machine(struct keeper *k, const struct msg_exec *m, int snapshot_fd);
void waiting_start_driver(struct keeper *k, struct msg_exec *m);
/* Tells that a run is over whose process lives on, or need not be waited for; false: it printed too much, and is
 * being ended. */
bool waiting_tell_end(struct keeper *k, uint32_t status);
/* A driver has something to say, or has ended before its run; a machine likewise. */
void waiting_on_driver(struct keeper *k);
void waiting_on_driver_end(struct keeper *k);
void waiting_on_warm(struct keeper *k);
/* A driver whose run is over: killed when its time has come, or `now`; and then gone. */
void waiting_kill_who_leaves(struct keeper *k, bool now);
void waiting_leave_if_over(struct keeper *k);

/* ---- session.c: runs whose interpreter stays ---- */
/* EXEC_DRIVER_RUN: starts a driver, or gives the one that waits its request. */
int session_run(struct keeper *k, struct msg_exec *m, struct err *e);
/* A driver is ready: true if a run has waited for that. */
bool session_on_ready(struct keeper *k);
/* Its input is opened. */
void session_on_stdin(struct keeper *k);
/* EXEC_KEEP_START, EXEC_KEEP_RUN: the same for a machine. */
void session_start_machine(struct keeper *k, struct msg_exec *m, int snapshot_fd);
int session_run_machine(struct keeper *k, const struct msg_exec *m, struct err *e);
/* The run is over, and its interpreter waits. */
void session_finish(struct keeper *k, uint32_t status);
/* Its time is over: true if it is told so first. */
bool session_puts_off(struct keeper *k, enum ended_by why);
/* Whether the run is another one's beside the interpreter that stays, and how it is ended then. */
bool session_is_beside(const struct keeper *k);
void session_kill(const struct keeper *k);

/* ---- output.c: what a program prints, and how it ended ---- */
/* Passes on what there is in one pipe; closes it at its end. */
void output_pass(struct keeper *k, int which);
/* All writers are dead: reads to the end. */
void output_drain(struct keeper *k);
/* Somebody lives on who has them: reads what there is. */
void output_drain_now(struct keeper *k);
/* A warm machine lives on: reads what there is, and keeps it for EXITED if it is little. */
void output_keep(struct keeper *k);
void output_send_exited(struct keeper *k, const char *text);
/* Touches what it will need: see files_rehearse(). */
void output_rehearse(void);

#endif
