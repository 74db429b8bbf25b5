/* call_poll: waiting for descriptors: poll, select, epoll. */
#ifndef HOTCELL_VMM_CALL_POLL_H
#define HOTCELL_VMM_CALL_POLL_H

#include "vmm/guest.h"

/* What the program has put into its epoll sets: the host's sets cannot be asked, and a snapshot has
 * to make them again. */
struct epoll_watch {
	int epoll_fd;
	int fd;
	uint32_t events;
	uint64_t data;
};

const struct epoll_watch *epoll_watches(uint32_t *ret_count);
/* Puts all of these, and only these, into sets that are new and empty. Returns 0 or -1 with errno. */
int epoll_watch_again(const struct epoll_watch *from, uint32_t count);
/* A descriptor ended: what concerns it is forgotten. */
void epoll_forget(int fd);

/* For a vfork child, see fds.h. */
struct epoll_kept;
struct epoll_kept *epoll_keep(void);
void epoll_restore(struct epoll_kept *kept);

/* The signal mask that ppoll and its like have for the time of the call. Entered at every try; only
 * the first one changes anything. `mask` 0 = none. Returns 0 or a negative errno. */
int poll_enter_mask(struct guest *g, uint64_t mask, uint64_t mask_size);
/* The call returns `result`: takes the mask back unless it goes on waiting. */
int64_t poll_leave_mask(struct guest *g, int64_t result);
/* `timeout_ms` negative = for ever. To be called at every try. */
void poll_deadline_ms(struct guest *g, int64_t timeout_ms);

int64_t call_poll(struct guest *g, const uint64_t a[6]);
int64_t call_ppoll(struct guest *g, const uint64_t a[6]);
int64_t call_select(struct guest *g, const uint64_t a[6]);
int64_t call_pselect6(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_create(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_create1(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_ctl(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_wait(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_pwait(struct guest *g, const uint64_t a[6]);
int64_t call_epoll_pwait2(struct guest *g, const uint64_t a[6]);

#endif
