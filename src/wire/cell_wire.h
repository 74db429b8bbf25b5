/* cell_wire: what engine and keeper say to each other on a cell's control socket.
 *
 *	engine                        keeper
 *	  PUT file…           ──────▶   staged beneath the workspace, in pieces
 *	  EXEC command        ──────▶   starts it
 *	  STDIN…, STDIN_END   ──────▶
 *	  ◀──────  OUTPUT…               what it prints, as it comes
 *	  ◀──────  EXITED                how it ended: nothing of it is running any more
 *	  ◀──────  FILE…, LISTED         if EXEC asked for it
 *	  LIST                ──────▶
 *	  ◀──────  FILE…, LISTED         what is in the workspace, and what of it is new
 *	  GET path            ──────▶
 *	  ◀──────  DATA…, GOT
 *	  PUT file…, PUT_END  ──────▶   without a program behind them: they stay for the next one
 *	  ◀──────  SERVED                whether all of them are there
 *	  REMOVE path         ──────▶   a file, or a directory with all that is in it
 *	  ◀──────  SERVED
 *	  CLEAR               ──────▶   empties the workspace: the next run is another one's
 *	  LINE                ──────▶   with a socket for the warm machine that is started next
 *	  REQUEST             ──────▶   what the next EXEC is to tell the driver that waits (not in vm cells)
 *	  ◀──────  WAITS                 a driver that was started is ready, or gone (likewise)
 *
 * On that socket engine and machine are by themselves (wire/vmm_warm.h); there GOES_OUT and EXITED come
 * from the machine.
 *
 * A PUT that fails is not answered: the next EXEC is, with EXITED that carries the reason, or the next
 * PUT_END. So a run needs no round trip before its program starts. */
#ifndef HOTCELL_WIRE_CELL_WIRE_H
#define HOTCELL_WIRE_CELL_WIRE_H

#include "base/file_kind.h"
#include "wire/frame.h"
#include "wire/limits.h"
#include "wire/vmm_stats.h"

#include <stdbool.h>

enum cell_frame {
	CELL_PUT = 64,
	CELL_EXEC,
	CELL_STDIN,
	CELL_STDIN_END,
	CELL_LIST,
	CELL_GET,
	CELL_CLEAR,
	CELL_LINE,
	CELL_OUTPUT,
	CELL_EXITED,
	CELL_FILE,
	CELL_LISTED,
	CELL_DATA,
	CELL_GOT,
	CELL_GOES_OUT,
	CELL_PUT_END,
	CELL_REMOVE,
	CELL_SERVED,
	CELL_REQUEST,
	CELL_WAITS,
	CELL_DROP,
};

enum { EXEC_WORDS_MAX = 1024 };

struct msg_put {
	const char *path; /* relative to the workspace */
	uint8_t kind;     /* FILE_REGULAR, FILE_DIRECTORY or FILE_SYMLINK (data = its target) */
	uint8_t append;   /* this is not the file's first piece */
	uint8_t is_code; /* of a run, and not a file that anybody has asked for: it replaces nothing */
	uint32_t mode;
	uint64_t memory_bytes; /* of the cell, which its files are part of; 0: no limit */
	const uint8_t *data;
	size_t data_len;
};

enum stdin_kind { STDIN_NULL = 1, STDIN_STREAM };

/* What an EXEC has to do with what waits in a cell: warm machines in vm cells, drivers in others. */
enum exec_warm {
	EXEC_COLD,
	EXEC_SNAPSHOT,   /* run it until it waits for a request; its state goes into the file that
	                     * comes with the frame, and then, if there is a line, what pages it uses in a
	                     * rehearsal that it finds there */
	EXEC_WARM_START, /* start a machine from the snapshot that comes with the frame: no run yet,
	                     * and no answer. Else the command is a driver's, and WAITS tells that it is
	                     * ready */
	EXEC_WARM_START_ONCE, /* likewise, for a single run; vm cells only */
	EXEC_WARM_RUN, /* a run that the machine has from the engine needs its files and streams. Else the
	                     * driver gets its REQUEST; if there is none any more, the command is run */
	/* The same for runs whose interpreter stays as it is, for the next one (docs/ARCHITECTURE.md). From the
	 * first of them on nothing in the cell is ended behind a run. */
	EXEC_KEEP_START, /* a machine, as above, that leaves all in the cell as it is; vm cells only */
	EXEC_KEEP_RUN, /* vm cells only */
	EXEC_DRIVER_RUN, /* the driver gets its REQUEST; if there is none, the command starts it. In any cell */
	EXEC_WARM_COUNT,
};

struct msg_exec {
	uint64_t wall_ms;
	uint64_t cpu_ms;
	uint64_t file_bytes;
	uint64_t open_files;
	uint64_t processes;
	uint64_t output_bytes;
	uint64_t memory_bytes; /* a guest is told; others find their limit in a cgroup */
	uint8_t stdin_kind;
	uint8_t list_when_done; /* send FILE…, LISTED behind EXITED */
	uint8_t trace;          /* a guest's system calls are told on its stderr */
	uint8_t warm;           /* enum exec_warm */
	uint32_t argv_count;
	uint32_t env_count;
	/* argv, then environment, each NULL-terminated. */
	const char *words[EXEC_WORDS_MAX];
};

enum stream { STREAM_STDOUT = 1, STREAM_STDERR };

struct msg_output {
	uint8_t stream;
	const uint8_t *data;
	size_t data_len;
};

/* Why the keeper ended a program. */
enum ended_by {
	ENDED_BY_ITSELF,
	ENDED_BY_TIMEOUT,
	ENDED_BY_CANCEL,
	ENDED_BY_CPU,
	ENDED_BY_MEMORY,
	ENDED_BY_OUTPUT,
	ENDED_BY_FAILURE, /* it never started: text says why */
	ENDED_BY_COUNT,
};

/* Of a vm cell's run; else zero. */
struct vm_counts {
	uint64_t exits;
	uint64_t unknown_calls;
	char missing_call[VMM_CALL_NAME_MAX]; /* plain letters, digits and '_' */
};

/* Whether a driver that had waited for it served it. ALONE: and the run has started nothing else, neither a process nor a
 * thread. So nothing of it was killed for want of memory, if it has ended by itself. */
enum waited { WAITED_NO, WAITED, WAITED_ALONE };

struct msg_exited {
	uint8_t ended_by;
	uint32_t wait_status;
	uint64_t wall_us;
	uint64_t cpu_us;        /* of all that was reaped */
	uint64_t max_rss_bytes; /* of the largest single process */
	uint64_t processes;     /* how many were reaped */
	uint8_t disk_full;
	uint8_t warm;        /* a warm machine served it, and is ready for another one or will be */
	uint8_t nothing_new; /* no file was made: no list follows */
	uint8_t waited;      /* enum waited */
	uint8_t kept;        /* its interpreter is there for the next one */
	struct vm_counts vm;
	const uint8_t *out[2]; /* the last of stdout and of stderr */
	size_t out_len[2];
	uint8_t failed_put;     /* enum err_kind, if it never started for want of a file; else 0 */
	uint32_t failed_put_as; /* errno, where there was one */
	const char *text;
};

enum { EXITED_OUTPUT_MAX = 8192 };

struct msg_file {
	const char *path;
	uint8_t kind;
	uint8_t generated; /* new or changed since it was staged */
	uint32_t mode;
	uint64_t size_bytes;
	const char *target; /* of a symlink; else NULL or empty */
};

struct msg_listed {
	uint8_t incomplete; /* there were more files, or deeper ones, than are listed */
};

struct msg_get {
	const char *path;
	uint64_t max_bytes; /* a larger one is refused with EFBIG; 0 = any */
};

struct msg_remove {
	const char *path;
	uint8_t is_code; /* only if it is what a run's code was put into */
};

struct msg_data {
	const uint8_t *data;
	size_t data_len;
};

struct msg_got {
	uint32_t error; /* errno, 0 = all of the file was sent */
};

struct msg_served {
	uint8_t kind;   /* enum err_kind; 0 = all is well */
	uint32_t error; /* errno, where there was one */
	const char *text;
};

/* How much of `name` can be that of a system call. */
size_t call_name_length(const char *name, size_t size);

void put_put(struct frame_out *f, const struct msg_put *m);
bool get_put(struct frame_in *f, struct msg_put *m);
void put_exec(struct frame_out *f, const struct msg_exec *m);
bool get_exec(struct frame_in *f, struct msg_exec *m);
const char *const *exec_argv(const struct msg_exec *m);
const char *const *exec_env(const struct msg_exec *m);
/* STDIN, DATA, REQUEST */
void put_data(struct frame_out *f, enum cell_frame type, const struct msg_data *m);
bool get_data(struct frame_in *f, struct msg_data *m);
/* STDIN_END, LIST, PUT_END, CLEAR, LINE, GOES_OUT, WAITS */
void put_bare(struct frame_out *f, enum cell_frame type);
bool get_bare(struct frame_in *f);
void put_get(struct frame_out *f, const struct msg_get *m);
bool get_get(struct frame_in *f, struct msg_get *m);
void put_remove(struct frame_out *f, const struct msg_remove *m);
bool get_remove(struct frame_in *f, struct msg_remove *m);
void put_output(struct frame_out *f, const struct msg_output *m);
bool get_output(struct frame_in *f, struct msg_output *m);
void put_exited(struct frame_out *f, const struct msg_exited *m);
bool get_exited(struct frame_in *f, struct msg_exited *m);
void put_file(struct frame_out *f, const struct msg_file *m);
bool get_file(struct frame_in *f, struct msg_file *m);
void put_listed(struct frame_out *f, const struct msg_listed *m);
bool get_listed(struct frame_in *f, struct msg_listed *m);
void put_got(struct frame_out *f, const struct msg_got *m);
bool get_got(struct frame_in *f, struct msg_got *m);
void put_served(struct frame_out *f, const struct msg_served *m);
bool get_served(struct frame_in *f, struct msg_served *m);

#endif
