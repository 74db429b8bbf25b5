/* recipe: the descriptors of a snapshot. They cannot be kept, only made again: a recipe says how.
 *
 * What a run has done to them is not undone, which would take a look at every state that a
 * descriptor has: they are closed, and new ones made. So nothing of a run stays in them. */
#ifndef HOTCELL_VMM_RECIPE_H
#define HOTCELL_VMM_RECIPE_H

#include "base/buf.h"
#include "base/err.h"
#include "vmm/call_poll.h"
#include "vmm/fds.h"

/* The three that come with a request are not among them. */
enum { RECIPES_FROM = 3, RECIPE_DATA_MAX = 63 };

struct recipe {
	int32_t fd;
	int32_t flags; /* of the description: O_NONBLOCK, O_DIRECT */
	uint32_t object;
	uint8_t origin;
	uint8_t kind;
	uint8_t access;
	uint8_t closes_on_exec;
	uint8_t is_semaphore;
	uint64_t count;    /* of an event */
	uint8_t data_size; /* of what is in a pipe, told by the end that it comes out of */
	char data[RECIPE_DATA_MAX];
};

struct recipes {
	const struct recipe *at;
	uint32_t count;
	const struct epoll_watch *watches;
	uint32_t watches_count;
};

/* Adds a struct recipe for each descriptor to `ret`. Takes out what is in them: for a process that
 * ends afterwards. Fails if there is one that cannot be made again. */
int recipe_take(struct buf *ret, uint32_t *ret_count, struct err *e);

/* Makes all of them, where none of them is open. */
int recipe_make(const struct recipes *r, struct err *e);

#endif
