/* engine: what the files of libhotcell share.
 *
 *	struct hotcell        one per program: languages, wardens, an epoll set
 *	  struct link         the connection to a warden, one per kind of isolation, made when needed
 *	  struct hotcell_cell a cell as the engine sees it: its number and its control socket
 *	  struct hotcell_work one run: a state machine that is driven by frames (run.c)
 */
#ifndef HOTCELL_ENGINE_ENGINE_H
#define HOTCELL_ENGINE_ENGINE_H

#include "base/buf.h"
#include "base/err.h"
#include "engine/pace.h"
#include "engine/timer.h"
#include "hotcell.h"
#include "language/cache.h"
#include "language/language.h"
#include "wire/cell_wire.h"
#include "wire/warden_wire.h"
#include "workspace/staging.h"

#include <stdbool.h>
#include <sys/types.h>

/* Something that epoll may tell about. */
struct source {
	void (*on_event)(struct hotcell *h, struct source *source, uint32_t events);
};

struct link {
	struct source source;
	enum isolation_kind kind;
	int socket_fd; /* -1: not started, or gone */
	int pid_fd;    /* -1: another one has started it, and waits for its end */
	bool sealed;
	bool is_lost; /* it has ended unexpectedly, and no other was started since */
};

struct hotcell_cell {
	struct hotcell_cell *next; /* of its row */
	struct source source;
	struct hotcell *engine;
	struct link *link;
	uint32_t id;
	int control_fd;
	struct source line_source;
	int line_fd; /* to the machine that waits in it; -1: none does, or it is gone */
	bool made;
	bool gone;
	bool never_up;         /* it could not be built */
	struct msg_made facts; /* workspace is in `workspace` */
	char *workspace;
	struct limits limits; /* that it has now */
	enum network_kind network;
	char **needs;               /* that it shows, NULL-terminated */
	char **mounts;              /* likewise: "name=source" */
	struct hotcell_work *work;  /* that runs in it now */
	bool wants_room;            /* epoll is to watch for EPOLLOUT too */
	uint32_t watched;           /* what it watches for now */
	bool is_deaf;               /* it watches for nothing any more: the cell hung up */
	const struct profile *warm; /* of the machine that waits in it; NULL: none does */
	const struct candidate
		*driver; /* whose driver was started in it; NULL: none, or it is used */
	const struct profile *driver_profile; /* with whose modules; NULL: none */
	bool driver_waits;                    /* it is ready */
	bool counts_from_ready;               /* the warden does, and nothing ran in it since */
	int peak_fd;                 /* tells the peak of its memory; -1: the warden is asked */
	struct limits driver_limits; /* that it was started with; or the interpreter that stays */
	/* Kept state: whose interpreter stays in it, as far as we know; NULL: none does. */
	const struct candidate *session;
	bool session_by_driver; /* it is a driver of the keeper's, not a machine */
	bool keeps;             /* there was a run in it that keeps: it is somebody's place */
	bool has_leftovers;     /* files of a run before, which were not cleared */
	uint8_t owed;         /* CELL_CLEAR or CELL_DROP, for which there was no room yet; else 0 */
	uint64_t cpu_used_us; /* by runs in it since cell_limit() */
	bool is_counted;      /* a run has ended in it that the warden counted for */
	unsigned unasked;     /* frames that came while it had no work */
	struct err failure;   /* why it is gone, if it failed */
	struct usage last_usage;
};

enum { CELL_ROWS = 1024 };

struct hotcell {
	int epoll_fd;
	struct batch *batch; /* of events, which is being handled */
	struct registry *registry;
	struct probe_cache *cache;
	char *cache_dir; /* NULL = nothing is kept */
	struct snapshot *snapshots;
	struct hotcell_preparation *preparations;
	struct found *found; /* tools, for a second: see tool.c */
	char *warden_path;
	char *vmm_path;
	char *share_dir;
	char *drivers_dir;
	bool allow_host_network;
	char **mount_dirs; /* NULL-terminated */
	bool once;
	bool never_waits;
	bool wardens_are_sealed; /* by whoever starts them */
	int (*start_warden)(
		void *context, const char *isolation, int *ret_socket, struct hotcell_error *e);
	void *context; /* for that */
	bool has_kvm;  /* its wardens have */
	bool has_asked_for_kvm;
	char no_kvm[128];                    /* why not, once that was asked for */
	struct link links[ISOLATION_VM + 1]; /* by kind */
	struct hotcell_cell
		*cells[CELL_ROWS]; /* by number, so that one of thousands is soon found */
	uint32_t next_cell;
	struct pace pace; /* of machines */
	struct {
		struct source source;
		int fd;
		int64_t armed_us; /* when it goes off; 0: never */
		struct timer *list;
	} timers;
	uint8_t in_buffer[FRAME_MAX];
	struct frame_out out;
	struct msg_exec exec;          /* what goes into that */
	uint8_t piece[FRAME_DATA_MAX]; /* likewise */
};

void error_out(struct hotcell_error *ret, const struct err *e);

/* Why there can be no vm here, "" if there can be one. The device is opened and asked once. */
const char *engine_no_kvm(struct hotcell *h);

/* ---- engine.c: what epoll tells ---- */
int source_add(struct hotcell *h, struct source *source, int fd, uint32_t events);
/* From here on it is told nothing, also not what has happened already. */
int source_remove(struct hotcell *h, const struct source *source, int fd);

/* ---- link.c ---- */
/* "container" and so on. */
const char *isolation_name(enum isolation_kind kind);
/* Starts the warden if it is not running. Does not wait for it. */
int link_start(struct hotcell *h, struct link *link, bool check, struct err *e);
/* Tells it what languages need, after which it builds cells. */
int link_seal(struct hotcell *h, struct link *link, struct err *e);
/* Sends h->out. */
int link_send(struct hotcell *h, struct link *link, int fd, struct err *e);
void link_close(struct hotcell *h, struct link *link, bool wait);

/* ---- cell.c ---- */
struct cell_wish {
	enum isolation_kind kind;
	enum network_kind network;
	bool explicit_network;
	uint32_t explicit_limits;
	struct limits limits;
	const char *needs[MAKE_BINDS_MAX];
	unsigned needs_count;
	struct mount_wish mounts[MOUNTS_MAX];
	unsigned mounts_count;
};
int cell_make(
	struct hotcell *h, const struct cell_wish *wish, struct hotcell_cell **ret, struct err *e);
/* Whether it can serve a run that wants a cell like `wish`: 0, or -1 with what stands against it.
 * Limits that can be changed later are. */
int cell_suit(struct hotcell_cell *cell, const struct cell_wish *wish, struct err *e);
/* Ends it and forgets it. */
void cell_drop(struct hotcell_cell *cell);
/* It is gone, whatever it has sent before: its work is told that, and then of its end. An own cell is
 * freed with its work. */
void cell_end(struct hotcell_cell *cell);
struct hotcell_cell *cell_find(struct hotcell *h, const struct link *link, uint32_t id);
/* Takes note of what it has sent while nothing runs in it. */
void cell_notice(struct hotcell_cell *cell);
/* Sends h->out on the control socket: 0 sent, 1 no room now (on_room will be called), -1 gone. */
int cell_send(struct hotcell_cell *cell);
/* run_on_room() is called when it can be sent something, with everything else that happens. */
void cell_want_room(struct hotcell_cell *cell);
/* Has its files removed, before anything else that it is told from now on. 0, or 1 if it owes that still,
 * or -1 if it is gone. */
int cell_clear(struct hotcell_cell *cell);
/* Whoever put files has given up: the one at hand is not whole. */
void cell_drop_half(struct hotcell_cell *cell);
int cell_send_owed(struct hotcell_cell *cell);
/* Something came while it had no work. It may have been on its way when that ended; but who talks on and on
 * is ended. */
void cell_on_unasked(struct hotcell_cell *cell);
/* Its work, or what that waits for, is another one: epoll is told. */
void cell_watch(struct hotcell_cell *cell);
int cell_send_with(struct hotcell_cell *cell, int fd);
int cell_order(struct hotcell_cell *cell, enum order order);
int cell_limit(struct hotcell_cell *cell, const struct limits *limits);
int cell_account(struct hotcell_cell *cell);
/* The peak of its memory, from the kernel's own mouth; -1 if only the warden can tell. */
int cell_read_peak(const struct hotcell_cell *cell, uint64_t *ret);
int cell_kill(struct hotcell_cell *cell);

/* ---- line.c: a warm machine in a cell (wire/vmm_warm.h) ---- */
/* Starts one from the snapshot in `fd`, unless there is one already. With time to spare it rehearses:
 * `rehearsal` is a request for its driver, or empty. */
int line_open(struct hotcell_cell *cell, const struct profile *profile, int fd, bool for_one_run,
	const struct buf *rehearsal, struct err *e);
/* For the program that makes a snapshot: it rehearses behind that. */
int line_rehearse(struct hotcell_cell *cell, const struct buf *rehearsal, struct err *e);
void line_close(struct hotcell_cell *cell);
/* Takes note of its end, if that has come. */
void line_notice(struct hotcell_cell *cell);
/* Gives it a request with `flags`. If it is gone already, that is told by an event. */
void line_ask(struct hotcell_cell *cell, uint8_t flags, const struct buf *request);

/* ---- driver.c: a driver that waits in a cell which is no vm ---- */
struct tool;
/* Whether the language has one at all. */
bool driver_is_possible(const struct hotcell *h, const struct tool *tool);
/* Its command, with the modules of `profile` (NULL: none); to be freed with strings_free(). */
char **driver_command(const struct tool *tool, const struct profile *profile);
/* Starts it. */
int driver_open(struct hotcell_cell *cell, const struct tool *tool, const struct profile *profile,
	struct err *e);
/* Whether one waits in the cell for a run by `tool`. */
bool driver_is_ready(struct hotcell_cell *cell, const struct tool *tool);
/* Whether one was started that is not ready yet. */
bool driver_is_warming(const struct hotcell_cell *cell);
/* Whether it has the limits that a run is to have. */
bool driver_suits(const struct hotcell_cell *cell, const struct limits *limits);
/* Whether a run that keeps can be in its cell, with what stands against it. */
int driver_check_keep(const struct hotcell_request *q, const struct tool *tool,
	const struct cell_wish *wish, struct err *e);

/* ---- tool.c: a language as it is installed here ---- */
struct tool {
	const struct language *language;
	const struct candidate *candidate;
	char *program;
	char *version; /* NULL if it was not asked */
	char **needs;  /* what the cell must show besides, NULL-terminated */
};
/* The first candidate that works. Probes in a cell what the cache does not know and must be known;
 * with `want_version` always. An engine that never waits takes what it does not know for good. */
int tool_find(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e);
/* The same as far as it is known, among the candidates from `from` on. TOOL_UNKNOWN: whether *ret works has
 * to be asked first. */
enum { TOOL_UNKNOWN = 1 };
int tool_look(struct hotcell *h, const struct language *language, bool want_version, unsigned from,
	struct tool *ret, struct err *e);
/* The command that tells a tool's version, and what came of it: whether it works. -1 if that cannot be
 * told. */
char **tool_version_command(const struct tool *tool);
int tool_learn(
	struct hotcell *h, struct tool *tool, const struct hotcell_result *result, struct err *e);
void tool_copy(const struct tool *from, struct tool *ret);
void tool_free(struct tool *tool);
/* What was found of late may not hold any more. */
void tool_forget(struct hotcell *h, const struct language *language);
void tool_forget_all(struct hotcell *h);
bool tool_compiles(const struct tool *tool);
const struct strings *tool_command(
	const struct strings *of_candidate, const struct strings *of_language);

/* ---- prepare.c: what takes time before a run ---- */
/* Goes on with those whose probes and snapshots are done. */
void prepare_step_all(struct hotcell *h);
/* No more of them. */
void prepare_end_all(struct hotcell *h);
/* These wait: for what tool_find() and snapshot_get() do not have. */
int prepare_tool(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e);
int prepare_snapshot(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, struct err *e);

/* ---- start.c ---- */
/* The profile that suits the request, NULL if no warm machine is to serve it. */
int start_choose_profile(const struct hotcell_request *q, const struct language *language,
	enum isolation_kind kind, const struct profile **ret, struct err *e);
/* A bare command in a fresh cell: to probe, or to run a driver up to where it waits. */
struct raw {
	enum isolation_kind kind;
	char **argv;     /* taken, whatever happens */
	int snapshot_fd; /* its state is to go here; -1: it has none of interest */
};
int start_raw(struct hotcell *h, const struct tool *tool, const struct raw *raw,
	struct hotcell_work **ret, struct err *e);

/* ---- run.c ---- */
void run_on_made(struct hotcell_work *work);
void run_on_frame(struct hotcell_work *work, uint8_t type, struct frame_in *in);
void run_on_room(struct hotcell_work *work);
/* Whether it is in the cell of that number. */
bool run_is_in(const struct hotcell_work *work, uint32_t cell);
/* Whether nothing is to be taken from its cell now. */
bool run_is_paused(const struct hotcell_work *work);
/* Until it has ended, again and again: an order is lost on a keeper that has not begun yet. cancel.c */
void cancel_order(struct hotcell_work *work);
/* What a warm machine says, and that it is gone. */
void run_on_line(struct hotcell_work *work, uint8_t type, struct frame_in *in);
void run_on_line_end(struct hotcell_work *work);
void run_on_usage(struct hotcell_work *work, const struct usage *usage);
/* The cell is no more. */
void run_on_gone(struct hotcell_work *work);

#endif
