/* hotcell: run code that somebody else wrote, in a fresh sealed cell.
 *
 *	struct hotcell *h;
 *	struct hotcell_error e;
 *	struct hotcell_result *r;
 *	struct hotcell_request q = { .language = "python", .code = "print(6 * 7)" };
 *
 *	if (hotcell_open(NULL, &h, &e) == 0 && hotcell_run(h, &q, &r, &e) == 0) {
 *		fwrite(r->out.data, 1, r->out.len, stdout);
 *		hotcell_result_free(r);
 *	}
 *	hotcell_close(h);
 *
 * Options are structs in which zero is the default. Functions return 0, or -1 with *e set. An
 * engine belongs to one thread at a time. The library prints nothing, handles no signal and its
 * children never raise SIGCHLD. */
#ifndef HOTCELL_H
#define HOTCELL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hotcell;
struct hotcell_cell;
struct hotcell_work;

enum hotcell_error_kind {
	HOTCELL_ERROR_SYSTEM = 1,  /* the machine failed us */
	HOTCELL_ERROR_INPUT,       /* the request is malformed */
	HOTCELL_ERROR_NOT_FOUND,   /* it names something that is not there */
	HOTCELL_ERROR_UNAVAILABLE, /* understood, but this machine cannot do it */
	HOTCELL_ERROR_PROTOCOL,    /* a part of hotcell misbehaved */
	HOTCELL_ERROR_LIMIT,       /* too large, too many */
	HOTCELL_ERROR_GONE,        /* a part of hotcell is no more */
};

struct hotcell_error {
	enum hotcell_error_kind kind;
	char text[512]; /* one sentence, for whoever can act */
	int sys_errno;  /* 0 unless a system call failed */
};

/* ---- an engine ---- */

enum hotcell_isolation {
	HOTCELL_ISOLATION_AUTO,    /* the strongest that this machine and the language have */
	HOTCELL_ISOLATION_PROCESS, /* none: for trusted code */
	HOTCELL_ISOLATION_CONTAINER,
	HOTCELL_ISOLATION_VM, /* a container whose program is a guest of KVM */
};

struct hotcell_options {
	const char *warden_path;               /* default: beside the program, else as installed */
	const char *share_dir;                 /* has languages/ and drivers/; likewise */
	const char *const *language_dirs;      /* further ones, NULL-terminated; later ones win */
	const char *cache_dir;                 /* default: ~/.cache/hotcell; "" = keep nothing */
	int allow_host_network;                /* requests may ask for the machine's network */
	const char *const *mount_dirs;         /* where mounts may be from; NULL-terminated */
	int once;                              /* one run is all that will be asked for… */
	const char *once_language;             /* …of this language, if it is known already… */
	enum hotcell_isolation once_isolation; /* …and in this isolation */
	/* Nothing waits but hotcell_run() and hotcell_dispatch(): a run starts cold if no snapshot is
	 * ready, and a language's version is unknown until it was prepared. For programs with a loop. */
	int never_waits;
	/* Starts a warden (of "container", "vm" or "process" isolation) for an engine that may not, and gives
	 * the end of a SOCK_SEQPACKET pair whose other end is that warden's. NULL: the engine starts them. */
	int (*start_warden)(
		void *context, const char *isolation, int *ret_socket, struct hotcell_error *e);
	int has_kvm;            /* with start_warden: whether those wardens can have vms */
	int wardens_are_sealed; /* likewise: they know what languages need, and will hear no more of it */
	/* A language file that could not be used: "file:line: key: what is wrong". */
	void (*on_problem)(void *context, const char *text);
	void *context;
};

int hotcell_open(
	const struct hotcell_options *options, struct hotcell **ret, struct hotcell_error *e);
/* Ends all that runs, and waits until nothing of it is left. Accepts NULL. */
void hotcell_close(struct hotcell *h);
/* The same for a program that is about to exit: the clearing goes on behind its back. */
void hotcell_abandon(struct hotcell *h);

/* ---- a run ---- */

enum hotcell_network { HOTCELL_NETWORK_DEFAULT, HOTCELL_NETWORK_NONE, HOTCELL_NETWORK_HOST };

/* 0 = the default; anything else is held, or the run is refused. */
struct hotcell_limits {
	uint64_t wall_ms;
	uint64_t cpu_ms;
	uint64_t memory_bytes;
	uint64_t processes;
	uint64_t disk_bytes;
	uint64_t file_bytes;
	uint64_t open_files;
	uint64_t cpus_milli;   /* 500 = half a processor */
	uint64_t output_bytes; /* of a stream, at which the run is ended */
};

/* Something that is to be in the workspace: a host file or directory, bytes, or a symlink. */
struct hotcell_input {
	const char *path;      /* in the workspace; default: the last name of host_path */
	const char *host_path; /* or NULL */
	const void *data;      /* if host_path is NULL */
	size_t data_len;
	const char *target; /* if both are NULL: where the symlink leads, in the cell */
};

/* A directory of the machine that the cell shows as /mnt/NAME, read-only; nothing in it can be executed, and
 * what is mounted below it is not shown. Not in process isolation. */
struct hotcell_mount {
	const char *source; /* absolute; in or below one of mount_dirs, through no symlink */
	const char *name;   /* of [A-Za-z0-9._-]; default: the last name of source */
};

struct hotcell_file {
	char *path;       /* relative to the workspace; may not be UTF-8 */
	const char *kind; /* "file", "directory", "symlink", "other" */
	unsigned mode;    /* its permissions, as in 0644 */
	char *target;     /* where a symlink leads, whatever the program chose; else NULL */
	uint64_t size_bytes;
	int generated; /* new, or changed since it was put there */
	int error;     /* errno: it could not be copied to where it was to go */
};

enum hotcell_stream { HOTCELL_STDOUT = 1, HOTCELL_STDERR };

struct hotcell_request {
	const char *language; /* id or alias; default: guessed from the entry file */
	const char *code;     /* or NULL, if `entry` is one of the inputs */
	size_t code_len;      /* 0 = up to its NUL */
	const char *entry;    /* which file is run; default: the code, else the only input */
	int entry_is_there;   /* it may be a file that the cell already has */
	const struct hotcell_input *inputs;
	size_t inputs_count;
	const struct hotcell_mount *mounts; /* if the cell was made before: the same */
	size_t mounts_count;                /* up to 8 */
	const char *const *args;            /* NULL-terminated, or NULL */
	const char *const *env;             /* "NAME=value", NULL-terminated, or NULL */
	const void *stdin_data;
	size_t stdin_len;
	int stdin_fd; /* read as the program reads, if have_stdin_fd; not closed */
	int have_stdin_fd;
	enum hotcell_isolation isolation;
	enum hotcell_network network;
	struct hotcell_limits limits;
	/* For what `limits` leaves 0; NULL: the library's. What of these cannot be held is reported, no reason
	 * to refuse; and a language that needs more memory or processes than these gets them. */
	const struct hotcell_limits *limits_default;
	uint64_t max_output;       /* of a stream, in the result; the rest is cut. 0 = 1 MB */
	int last_line;             /* echo the value of a last expression */
	int trace;                 /* system calls, on stderr; in vm isolation only */
	const char *output_dir;    /* generated files are copied here */
	struct hotcell_cell *cell; /* run in this one, made before; default: one of its own */
	int cell_ends;             /* that cell is not used again after this run */
	int machine_ends; /* a warm machine in it is not: it serves this run only. Behind it
	                            * everything in the cell is ended and removed, and another machine
	                            * gets ready */
	/* In a cell that was made before: variables, functions and so on stay for the next run that keeps.
	 * For languages that can (hotcell_language.keeps_state); files stay in any case. */
	int keep;
	const char *profile; /* what a warm machine has loaded; default: what suits the code */
	int cold;            /* no warm machine, though there may be one */
	/* What the program prints, as it comes; also what is cut from the result. `compiling` tells
	 * a compiler's output from the program's. */
	void (*on_output)(void *context, enum hotcell_stream stream, int compiling,
		const char *data, size_t len);
	/* For each generated file, in place of output_dir: a descriptor to write it to, which stays the
	 * caller's; -1: it is not wanted. Also called for what is no regular file: answer -1. */
	int (*open_file)(void *context, const struct hotcell_file *file);
	/* A stream is longer than max_output: a descriptor that all of the output is written to, from its
	 * beginning and in the order in which it came; it stays the caller's. -1: it is cut, and that is all. */
	int (*open_overflow)(void *context);
	void *context;
};

enum hotcell_reason {
	HOTCELL_EXITED,
	HOTCELL_SIGNALED,
	HOTCELL_TIMEOUT,
	HOTCELL_CPU_LIMIT,
	HOTCELL_MEMORY_LIMIT,
	HOTCELL_OUTPUT_LIMIT,
	HOTCELL_DISK_LIMIT,
	HOTCELL_CANCELLED,
	HOTCELL_CELL_FAILED,
};

const char *hotcell_reason_name(enum hotcell_reason reason); /* "memory_limit" */

struct hotcell_bytes {
	char *data; /* with a NUL behind it that len does not count; never NULL */
	size_t len;
	int truncated;
};

struct hotcell_compile {
	int present;
	int exit_code;
	struct hotcell_bytes out;
	struct hotcell_bytes err;
	uint64_t duration_us;
};

enum hotcell_state {
	HOTCELL_STATE_NONE, /* there was nothing to keep */
	HOTCELL_STATE_KEPT, /* the next run finds what this one has left */
	HOTCELL_STATE_LOST, /* files are there, variables are not: the interpreter had to end */
};

struct hotcell_result {
	enum hotcell_state state;
	struct hotcell_bytes out;
	struct hotcell_bytes err;
	int exit_code;  /* 128 + signal if signaled; -1 on timeout */
	int has_exited; /* 0: it had to be killed with its cell, or was cancelled before it began */
	enum hotcell_reason reason;
	char reason_text[256]; /* for people; may be empty */
	uint64_t duration_us;
	const char *isolation; /* "container", "vm" or "process" */
	/* Why it is not a vm, though that was left to us; else "". */
	char isolation_why[160];
	int warm;       /* a warm machine served it, or an interpreter that had waited for it */
	char *language; /* its id */
	char *code_file; /* that the code was put into, in a cell that was made before and is not emptied; NULL: none */
	struct hotcell_compile compile;
	struct hotcell_file *files; /* new or changed */
	size_t files_count;
	int files_incomplete; /* there were too many, or too deep ones, to list all */
	struct {
		uint64_t cpu_us;
		uint64_t peak_memory_bytes;
		uint64_t processes; /* at one time */
	} usage;
	struct {
		uint64_t exits;         /* how often the program left its machine */
		uint64_t unknown_calls; /* system calls that a vm does not have: ENOSYS */
		char missing_call[32];  /* the first of them but for those that C libraries merely
		                         * try; "" if there was none */
	} vm;                           /* in vm isolation; else zero */
	char **limits_not_enforced;     /* NULL-terminated: "memory: watched every 20 ms (soft)" */
};

/* Runs it and waits. */
int hotcell_run(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_result **ret, struct hotcell_error *e);
void hotcell_result_free(struct hotcell_result *result);

/* The same without waiting, for programs with a loop of their own: wait until hotcell_fd() is
 * readable, call hotcell_dispatch(h, 0), see whether the work is done. What the request points to
 * must stay until then. */
int hotcell_start(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_work **ret, struct hotcell_error *e);
int hotcell_fd(const struct hotcell *h);
/* Waits up to timeout_ms (-1 = for ever) for something to happen, and handles it. */
int hotcell_dispatch(struct hotcell *h, int timeout_ms, struct hotcell_error *e);
int hotcell_done(const struct hotcell_work *work);
/* Ends the program; the result, with all output so far, comes as usual. */
void hotcell_cancel(struct hotcell_work *work);
/* As Ctrl-C would: SIGINT. A program that minds it not goes on. */
void hotcell_interrupt(struct hotcell_work *work);
/* While it is on, no output is taken from the cell, and a program that prints waits. Its clock goes on:
 * at the end of its time, and when it is cancelled, the little that is on its way comes nonetheless. */
void hotcell_pause(struct hotcell_work *work, int on);
/* Once it is done: the result, or why there is none. Frees the work. */
int hotcell_finish(struct hotcell_work *work, struct hotcell_result **ret, struct hotcell_error *e);

/* ---- cells made ahead ---- */

/* A cell for runs of `request`'s language, isolation, network, mounts and limits. Returns at once: it is
 * built in the background. */
int hotcell_cell_make(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_cell **ret, struct hotcell_error *e);
void hotcell_cell_free(struct hotcell_cell *cell);

enum hotcell_cell_state {
	HOTCELL_CELL_MAKING, /* or what is to wait in it is not ready: a run would start cold */
	HOTCELL_CELL_READY,
	HOTCELL_CELL_BUSY,
	HOTCELL_CELL_GONE, /* it ended; to be freed */
};

enum hotcell_cell_state hotcell_cell_state(const struct hotcell_cell *cell);
/* "container", "vm" or "process". */
const char *hotcell_cell_isolation(const struct hotcell_cell *cell);
/* Why it is gone; NULL if it is not. */
const char *hotcell_cell_failure(const struct hotcell_cell *cell);

/* How many there are of that isolation, those of runs that are going on included. */
size_t hotcell_cells_count(const struct hotcell *h, enum hotcell_isolation isolation);

/* Its files, while nothing runs in it. */
enum hotcell_files_kind {
	HOTCELL_FILES_PUT,    /* inputs; what is there is replaced */
	HOTCELL_FILES_LIST,   /* → result->files, all of them */
	HOTCELL_FILES_GET,    /* → fd, from its start; result->files[0] tells its size */
	HOTCELL_FILES_REMOVE, /* a file, or a directory with all that is in it; or only_code */
	HOTCELL_FILES_CLEAR,  /* all there are, and those of /tmp */
};

struct hotcell_files {
	enum hotcell_files_kind kind;
	const struct hotcell_input *inputs;
	size_t inputs_count;
	const char *path;
	int fd;            /* stays the caller's */
	uint64_t max_size; /* of what is got; 0 = any */
	int only_code;     /* of what is removed: unless it is a run's code, it stays */
};

/* hotcell_finish() fails with HOTCELL_ERROR_NOT_FOUND if there is no such path, with
 * HOTCELL_ERROR_INPUT if it is no regular file, with HOTCELL_ERROR_LIMIT if it is too large or the
 * cell's disk is full. */
int hotcell_files_start(struct hotcell_cell *cell, const struct hotcell_files *files,
	struct hotcell_work **ret, struct hotcell_error *e);

/* ---- languages ---- */

struct hotcell_language {
	const char *id;
	const char *name;
	char *version;   /* NULL if it is not installed, or not known (never_waits) */
	int installed;   /* a program for it is there */
	int vm;          /* it can be run in vm isolation, on a machine that has it */
	int keeps_state; /* hotcell_request.keep */
	int last_line;   /* hotcell_request.last_line */
	int compiles;
	const char *const *profiles; /* of warm machines; NULL-terminated, never NULL */
	const char *const *aliases;  /* likewise */
	const char *const *extensions;
	const char *install; /* how to get it */
	const char *path;    /* its YAML file */
};

/* All of them, with their versions (each program that was not seen before is asked, in a cell). */
int hotcell_languages(struct hotcell *h, struct hotcell_language **ret, size_t *ret_count,
	struct hotcell_error *e);
void hotcell_languages_free(struct hotcell_language *languages, size_t count);

/* What would be done with a request, without doing it. */
struct hotcell_plan {
	const char *language;             /* its id */
	enum hotcell_isolation isolation; /* never auto */
	const char *profile; /* of the warm machine or driver that would serve it; NULL: none */
	int is_ready;        /* with a profile: it would come from a snapshot that is there */
	int compiles;        /* in a cell of its own, before it is run */
};
int hotcell_plan(struct hotcell *h, const struct hotcell_request *request, struct hotcell_plan *ret,
	struct hotcell_error *e);

/* Gets ready what runs of the request's language, isolation and profile need and what takes time: which
 * program it is and of which version, and the snapshot. Without waiting, like hotcell_start(). */
struct hotcell_preparation;
int hotcell_prepare(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_preparation **ret, struct hotcell_error *e);
int hotcell_prepare_done(const struct hotcell_preparation *preparation);
/* Frees it, also one that is not done: then it is given up. */
int hotcell_prepare_finish(struct hotcell_preparation *preparation, struct hotcell_error *e);
/* Whether all wardens that were started are alive. The next cell of one that is not starts another. */
int hotcell_is_well(const struct hotcell *h);
/* Starts those again that are not, before somebody needs them. */
int hotcell_mend(struct hotcell *h, struct hotcell_error *e);

const char *hotcell_version(void);

#ifdef __cplusplus
}
#endif

#endif
