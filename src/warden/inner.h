/* inner: what the files of the warden share. */
#ifndef HOTCELL_WARDEN_INNER_H
#define HOTCELL_WARDEN_INNER_H

#include "base/tsc.h"
#include "cell/uids.h"
#include "warden/cells.h"
#include "warden/check.h"
#include "warden/warden.h"

enum { REFUSED_MAX = 64 };

/* A MAKE that was read and not begun yet: frames behind it may be kills, which come first. */
struct pending {
	struct pending *next;
	struct cell_spec spec;
	uint32_t id;
	uint32_t explicit_limits;
	bool explicit_network;
	int control_fd;
	char texts[]; /* of its mounts */
};

struct warden {
	const struct warden_options *options;
	void *state;         /* of the isolation */
	struct err unusable; /* preparing failed: why; every MAKE is answered with it */
	struct tsc_mark started;
	struct cgroup_tree tree;
	struct uids uids;
	struct checks checks;
	int epoll_fd;
	bool sealed;
	/* Directories that cannot be shown, and why: only who asks for one is refused. */
	struct refusal {
		char *path;
		char *why;
	} refused[REFUSED_MAX];
	size_t refused_count;
	bool engine_gone;
	bool swept; /* what dead wardens left is removed */
	struct cell *cells;
	struct pending *pending;
	/* Groups of cells that are gone, whose directories were still busy. */
	struct cgroup *leftovers;
	size_t leftovers_count;
	int64_t retry_at_us;
	/* The group that the next cell will have, made when there was time. */
	struct cgroup spare;
	bool spare_ready;
	uint32_t next_group;
	int64_t get_ahead_at_us; /* the next cell's things are to be made when there is time */
	struct frame_out out;
};

/* Sends w->out to the engine. */
void warden_tell(struct warden *w);
/* And hands over `fd`, if it can be; -1: none. */
void warden_tell_with(struct warden *w, int fd);

/* Most of what fails for want of rights doctor knows about. */
void make_point_to_doctor(struct err *e);
/* Takes over control_fd. Checks the request and queues it, or answers that it cannot be. */
void make_ask(struct warden *w, const struct msg_make *m, int control_fd);
/* One that was asked for and is not begun yet, or NULL. */
struct pending *make_find_pending(struct warden *w, uint32_t id);
/* It is not wanted any more. */
void make_drop_pending(struct warden *w, uint32_t id);
/* Begins the oldest one. */
void make_next(struct warden *w);
/* The cell is no more: answers the engine and undoes all that it had. */
void make_undo(struct warden *w, struct cell *cell);
void make_retry_leftovers(struct warden *w);
/* Removes what dead wardens left, once, when nobody waits for it. */
void make_sweep(struct warden *w);
void make_get_ahead(struct warden *w);
void make_drop_spare(struct warden *w);

#endif
