/* snapshot: a program that waits for its next request, as a file.
 *
 *	0         header, then the books: descriptors, areas, blocks, threads, names, words
 *	IMAGE     guest physical memory, with holes where it is zero
 *
 * A machine that starts from it maps the image copy-on-write; all of them share its pages. After a
 * run what the run wrote is put back from the image, page by page, and the books are read anew. The
 * file is made by the trusted side from a run of trusted code only. Its books are looked at; its image is
 * believed, and can do no more harm than any program in the machine. */
#ifndef HOTCELL_VMM_SNAPSHOT_H
#define HOTCELL_VMM_SNAPSHOT_H

#include "vmm/guest.h"

/* The current state into an empty file. All threads wait, the current one for a request. */
int snapshot_write(struct guest *g, int fd, struct err *e);

/* The same machine goes on as one that was loaded from it, and notes what pages it uses; its descriptors are
 * to be made anew. Then what it has used is written to the file, too. */
int snapshot_watch_use(struct guest *g, int fd, struct err *e);
/* With `stays` the file is what machines will start from, not a copy of it on some disk. */
int snapshot_write_use(struct guest *g, bool stays, struct err *e);

/* Into a guest with nothing in it but its limits: first books, and memory that nobody has touched yet; `memory_size` is
 * what to reserve, a snapshot may need more. Then the machine, which belongs to the process that makes it. For one
 * run memory matters less than time. */
int snapshot_open(struct guest *g, int fd, uint64_t memory_size, struct err *e);
int snapshot_begin(struct guest *g, bool for_one_run, struct err *e);

/* The two steps of loading that need no machine. The first says whether the bytes (all before the image;
 * `size` is that of the whole file) can be one, and takes them; the second reads them into the guest. */
int snapshot_use(const uint8_t *bytes, uint64_t size, struct err *e);
int snapshot_read_books(struct guest *g, struct err *e);

/* With what the driver was started: its program, then its environment; NULL-terminated. */
const char *const *snapshot_words(void);

/* The program's descriptors, as they were. None of them is open. */
int snapshot_make_descriptors(struct err *e);

/* Back to the snapshot after a run, with the same machine, or another one if that is cheaper. */
int snapshot_reset(struct guest *g, struct err *e);

/* Compares memory and books with the snapshot: -1 with *e that says what differs. Too slow but for builds
 * that look for mistakes (-Dverify_resets=true, and the sanitized one). */
int snapshot_verify(struct guest *g, struct err *e);

#endif
