/* device: /dev/null and its like. Our root has no devices, so the VMM is them; for poll and for the
 * number the host has an eventfd that is always ready. */
#ifndef HOTCELL_VMM_DEVICE_H
#define HOTCELL_VMM_DEVICE_H

#include "vmm/fds.h"
#include "vmm/pieces.h"

#include <sys/stat.h>

/* A new descriptor of a device. Returns it or a negative errno. */
int device_open(struct guest *g, enum fd_kind kind, int flags);
void device_stat(enum fd_kind kind, struct stat *ret);

/* For descriptors whose fds_kind() is not FD_PLAIN. */
int64_t device_read(int fd, struct pieces *p);
int64_t device_write(int fd, const struct pieces *p);
int64_t device_seek(int fd, int64_t offset, int whence);
/* A made-up directory: whole entries from its placeholder, which holds them as getdents64 gives
 * them. */
int64_t device_getdents(int fd, void *ret, size_t size);

#endif
