/* call_file: reading, writing, and what else is done with an open file. */
#ifndef HOTCELL_VMM_CALL_FILE_H
#define HOTCELL_VMM_CALL_FILE_H

#include "vmm/guest.h"
#include "vmm/pieces.h"

/* Tells the stub for which of descriptors 1 and 2 it may keep output back. After everything that may
 * have changed what they are, and at start. */
void file_update_output(struct guest *g);

/* What the current thread's call has moved before it had to wait. A blocking write of much data goes
 * on where it stopped. Set to 0 at a call's first try. */
uint64_t *file_progress(struct guest *g);
/* A signal ends the wait of thread number `index`: how much its call has moved, 0 if nothing. The
 * call's result should then be this and not EINTR. Forgets it. */
uint64_t file_take_progress(int index);

/* Makes the current thread wait for `fd`, unless its description is not to block: -EAGAIN then. */
int64_t file_wait(struct guest *g, int fd, short events);
/* Makes it try again soon: for what the host cannot wait for without blocking us. */
int64_t file_wait_a_little(struct guest *g);

int64_t call_read(struct guest *g, const uint64_t a[6]);
int64_t call_write(struct guest *g, const uint64_t a[6]);
int64_t call_readv(struct guest *g, const uint64_t a[6]);
int64_t call_writev(struct guest *g, const uint64_t a[6]);
int64_t call_pread64(struct guest *g, const uint64_t a[6]);
int64_t call_pwrite64(struct guest *g, const uint64_t a[6]);
int64_t call_preadv(struct guest *g, const uint64_t a[6]);
int64_t call_pwritev(struct guest *g, const uint64_t a[6]);
int64_t call_preadv2(struct guest *g, const uint64_t a[6]);
int64_t call_pwritev2(struct guest *g, const uint64_t a[6]);
int64_t call_lseek(struct guest *g, const uint64_t a[6]);
int64_t call_sendfile(struct guest *g, const uint64_t a[6]);
int64_t call_copy_file_range(struct guest *g, const uint64_t a[6]);
int64_t call_splice(struct guest *g, const uint64_t a[6]);
int64_t call_ftruncate(struct guest *g, const uint64_t a[6]);
int64_t call_fallocate(struct guest *g, const uint64_t a[6]);
int64_t call_fsync(struct guest *g, const uint64_t a[6]);
int64_t call_fdatasync(struct guest *g, const uint64_t a[6]);
int64_t call_sync(struct guest *g, const uint64_t a[6]);
int64_t call_sync_file_range(struct guest *g, const uint64_t a[6]);
int64_t call_fadvise64(struct guest *g, const uint64_t a[6]);

#endif
