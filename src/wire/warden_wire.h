/* warden_wire: what engine and warden say to each other.
 *
 *	engine                                   warden
 *	  ALLOW path          ──────────────────▶  a directory that cells may see, read-only
 *	  SEAL                ──────────────────▶  from here on, no more ALLOW
 *	  MAKE cell, + socket ──────────────────▶  builds; the socket becomes the cell's control
 *	  ◀──────────────────  MADE or GONE        (the engine may use the control socket at once:
 *	                                            what it sends waits until the keeper is up;
 *	                                            + a file that tells a container's peak of memory)
 *	  LIMIT / ORDER / ACCOUNT / KILL ───────▶
 *	  ◀──────────────────  USAGE (to ACCOUNT), GONE (when the cell is no more, however it ended)
 *	  CHECK               ──────────────────▶
 *	  ◀──────────────────  CHECKED…, CHECK_END
 *
 * Each message has one struct, one put and one get. A get returns false for malformed bytes. */
#ifndef HOTCELL_WIRE_WARDEN_WIRE_H
#define HOTCELL_WIRE_WARDEN_WIRE_H

#include "wire/frame.h"
#include "wire/limits.h"
#include "wire/mounts.h"

enum warden_frame {
	WARDEN_ALLOW = 1,
	WARDEN_SEAL,
	WARDEN_MAKE,
	WARDEN_LIMIT,
	WARDEN_ORDER,
	WARDEN_ACCOUNT,
	WARDEN_KILL,
	WARDEN_CHECK,
	WARDEN_MADE,
	WARDEN_USAGE,
	WARDEN_GONE,
	WARDEN_CHECKED,
	WARDEN_CHECK_END,
};

enum isolation_kind { ISOLATION_PROCESS = 1, ISOLATION_CONTAINER, ISOLATION_VM };
enum network_kind { NETWORK_NONE = 1, NETWORK_HOST };

/* Why everything in a cell is to be ended while its keeper lives on to tell what was printed; or that its program
 * is to get SIGINT, and nothing else happens. */
enum order {
	ORDER_NONE,
	ORDER_CANCEL = 'x',
	ORDER_CPU = 'c',
	ORDER_MEMORY = 'm',
	ORDER_INTERRUPT = 'i',
};

enum { MAKE_BINDS_MAX = 32 };

struct msg_path {
	const char *path;
};

struct msg_make {
	uint32_t cell;
	uint8_t network;
	uint32_t explicit_limits; /* LIMIT_BITs that the caller asked for by name: hold or refuse */
	uint8_t explicit_network;
	struct limits limits;
	uint32_t binds_count;
	const char *binds[MAKE_BINDS_MAX];
	uint32_t mounts_count;
	struct mount_wish mounts[MOUNTS_MAX];
};

struct msg_limit {
	uint32_t cell;
	struct limits limits;
};

struct msg_order {
	uint32_t cell;
	uint8_t order;
};

struct msg_cell {
	uint32_t cell;
};

struct msg_made {
	uint32_t cell;
	uint32_t not_enforced; /* LIMIT_BITs that nothing holds here */
	uint32_t soft;         /* LIMIT_BITs that a watcher holds, not the kernel */
	uint8_t network_not_enforced;
	const char *workspace; /* the path of the workspace as the program in the cell sees it */
};

struct usage {
	uint64_t cpu_us; /* since the cell was last told its limits; oom_kills likewise */
	uint64_t peak_memory_bytes;
	uint64_t peak_processes;
	uint64_t oom_kills;
};

struct msg_usage {
	uint32_t cell;
	struct usage usage;
};

struct msg_gone {
	uint32_t cell;
	uint8_t failed;   /* it never came up, or it broke: `text` says how */
	uint8_t err_kind; /* enum err_kind, if failed */
	const char *text;
	struct usage usage;
};

enum check_state { CHECK_FINE = 1, CHECK_WEAK, CHECK_MISSING };

struct msg_checked {
	const char *name;
	uint8_t state;
	uint8_t needed; /* container isolation is not whole without it */
	const char *detail;
	const char *fix; /* the command that mends it, or "" */
};

void put_path(struct frame_out *f, enum warden_frame type, const struct msg_path *m);
bool get_path(struct frame_in *f, struct msg_path *m);
void put_make(struct frame_out *f, const struct msg_make *m);
bool get_make(struct frame_in *f, struct msg_make *m);
void put_limit(struct frame_out *f, const struct msg_limit *m);
bool get_limit(struct frame_in *f, struct msg_limit *m);
void put_order(struct frame_out *f, const struct msg_order *m);
bool get_order(struct frame_in *f, struct msg_order *m);
/* ACCOUNT, KILL */
void put_cell(struct frame_out *f, enum warden_frame type, const struct msg_cell *m);
bool get_cell(struct frame_in *f, struct msg_cell *m);
/* SEAL, CHECK, CHECK_END */
void put_nothing(struct frame_out *f, enum warden_frame type);
bool get_nothing(struct frame_in *f);

void put_made(struct frame_out *f, const struct msg_made *m);
bool get_made(struct frame_in *f, struct msg_made *m);
void put_usage(struct frame_out *f, const struct msg_usage *m);
bool get_usage(struct frame_in *f, struct msg_usage *m);
void put_gone(struct frame_out *f, const struct msg_gone *m);
bool get_gone(struct frame_in *f, struct msg_gone *m);
void put_checked(struct frame_out *f, const struct msg_checked *m);
bool get_checked(struct frame_in *f, struct msg_checked *m);

#endif
