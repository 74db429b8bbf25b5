/* uids: a host user id of its own for every cell, where we may give one.
 *
 * Ids come from a range that nobody else uses. All wardens of a machine share it: byte N of one
 * file stands for id N of the range and is locked while a cell has it. The kernel lets go of the
 * lock when the warden dies. */
#ifndef HOTCELL_CELL_UIDS_H
#define HOTCELL_CELL_UIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct uids {
	uid_t base;
	unsigned count; /* 0: no ids to give; cells run as `base`, our own */
	unsigned next;
	int lock_fd;
	uint8_t *taken; /* a bit for each that we gave out: our own locks do not keep us out */
};

void uids_open(struct uids *u);
/* We may be in another user namespace since: are the ids still there? */
void uids_check_again(struct uids *u);
void uids_close(struct uids *u);
/* -1 (as uid_t) if all are taken. */
uid_t uids_take(struct uids *u);
void uids_give_back(struct uids *u, uid_t uid);

#endif
