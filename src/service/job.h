/* job: one run, from who asks for it to what became of it.
 *
 *	NEW --check--> CHECKING --fine--> QUEUED --a place--> RUNNING --ended--> STORING --files are safe--> DONE
 *	  +------------------ refused, cancelled, failed ------------------------------------------------> DONE
 *
 * Only job_goto() changes the state. */
#ifndef HOTCELL_SERVICE_JOB_H
#define HOTCELL_SERVICE_JOB_H

#include "base/buf.h"
#include "service/caller.h"
#include "service/engine.h"
#include "service/sessions.h"
#include "service/spec.h"
#include "store/store.h"

enum job_state { JOB_NEW, JOB_CHECKING, JOB_QUEUED, JOB_RUNNING, JOB_STORING, JOB_DONE };

/* A file that the run has left. */
struct job_file {
	char *path;
	const char *kind;
	unsigned mode;
	char *target; /* of a symlink, or NULL */
	uint64_t size_bytes;
	char id[STORE_ID_SIZE]; /* "" if it is not in the store */
	int error;
	int blob_fd;
};

/* Somebody who follows a job. Part of a larger struct; removed with job_unwatch(). */
struct job_watch {
	struct list link;
	struct job *job;
	struct list *sent; /* the last event of the log that it has had */
	/* Another piece of output: false if there is no room for more now; job_continue() goes on. NULL: it is
	 * not interested. */
	bool (*on_output)(
		struct job_watch *watch, enum hotcell_stream stream, const char *data, size_t len);
	/* A check has let it through: it waits for a place, or runs. NULL: not interested. */
	void (*on_entered)(struct job_watch *watch);
	/* Once. The watch is out of the list already. */
	void (*on_done)(struct job_watch *watch);
};

struct job {
	struct list link; /* in admission's queue, or among the running */
	struct list recent;
	struct service *service;
	char id[STORE_ID_SIZE];
	enum job_state state;
	struct caller caller; /* who asks: a copy */
	struct spec spec;
	struct session *session; /* or NULL */
	struct session_turn turn;
	struct engine_op op;
	struct pool_cell *cell; /* of a pool, or NULL */
	struct engine *engine;
	struct hotcell_input *inputs;
	char **staged; /* paths among them that are the job's to free */
	size_t staged_count;
	struct list watches;
	struct list log; /* of output, for those who follow */
	size_t log_bytes;
	bool log_is_cut;
	uint64_t streamed_bytes
		[2]; /* of the program's stdout and stderr, what is cut from the log included */
	bool is_paused;
	bool is_cancelled;
	bool is_again; /* the cell was gone: it is tried once more */
	int64_t submitted_us;
	int64_t started_us;
	int64_t ended_us;
	double submitted_s; /* since 1970 */
	struct job_file *files;
	size_t files_count;
	unsigned storing; /* files on their way to the disk */
	int full_fd;      /* all of an output that is too long for the reply */
	char full_id[STORE_ID_SIZE];
	/* What came of it: one of them. */
	struct hotcell_result *result;
	struct hotcell_error failure;
	int failure_status; /* HTTP's, if the kind of error does not tell */
	unsigned references;
};

/* Takes what the spec holds. One reference is the caller's. */
struct job *job_new(struct service *s, const struct caller *caller, struct spec *spec);
/* To be run in a session. */
void job_set_session(struct job *job, struct session *session);
/* Sets it going; on_done of the watches may be called at once. */
void job_submit(struct job *job);
/* Into the queue. */
void job_enter(struct job *job);
/* The same, for checks: nothing stands against it. */
void job_let_through(struct job *job);
/* For admission: a place is free. */
void job_start(struct job *job);
void job_watch(struct job *job, struct job_watch *watch);
void job_unwatch(struct job_watch *watch);
/* Hands on as much of the log as there is room for. */
void job_pump(struct job_watch *watch);
/* The same, and lets the program go on that waited for it. */
void job_continue(struct job_watch *watch);
void job_cancel(struct job *job);
void job_interrupt(struct job *job);
/* For checks, admission and sessions: it ends here. */
void job_fail(struct job *job, int status, enum hotcell_error_kind kind, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The service ends: whatever it does, it does no more, and nobody is told. */
void job_abandon(struct job *job);
void job_release(struct job *job);
const char *job_state_name(const struct job *job);

#endif
