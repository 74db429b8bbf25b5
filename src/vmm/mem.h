/* mem: a guest's memory.
 *
 * Physical memory is one private mapping of ours, cut into chunks of 2 MiB. The program's 47 bits
 * of addresses are cut into blocks of 2 MiB; a block is bound to a free chunk when it is first
 * needed, and stays bound until nothing is mapped in it any more.
 *
 *	areas     what the program has mapped, sorted: the truth about what it may touch
 *	blocks    which chunk stands behind which 2 MiB of addresses
 *	tables    the processor's page tables, made from areas and blocks
 *
 * A page table entry that is absent may be filled in at any time. One that is present may only be
 * changed by the processor itself (a PVM host does not notice otherwise): such edits are queued and
 * done by the page table editor in the guest, in mem_flush(). */
#ifndef HOTCELL_VMM_MEM_H
#define HOTCELL_VMM_MEM_H

#include "base/err.h"
#include "vmm/stub/layout.h"
#include "vmm/vcpu.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PAGE         4096UL
#define CHUNK        (2UL << 20)
#define MEMORY_MAX   (64UL << 30)
#define ADDRESS_END  ((uint64_t)USER_END)
#define PAGE_UP(x)   (((x) + PAGE - 1) & ~(PAGE - 1))
#define PAGE_DOWN(x) ((x) & ~(PAGE - 1))

enum area_kind { AREA_ANONYMOUS, AREA_FILE, AREA_SHARED, AREA_HEAP, AREA_STACK };

struct area {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in its file */
	uint32_t name;   /* of its file, an index into `names`; 0 = none */
	uint8_t protection;
	uint8_t kind;
	uint8_t may_write; /* shared: its file was opened for writing, so that it may become writable */
};

struct block {
	uint64_t number; /* address / CHUNK */
	uint32_t chunk;
	uint64_t table; /* physical address of its page table; 0: it has none yet */
};

struct edit {
	uint64_t entry; /* where, as the processor sees it */
	uint64_t value;
	uint64_t address; /* what it maps: forgotten by the processor */
};

struct remap {
	uint64_t start;
	uint64_t end;
};

enum { EXTRA_TABLES_MAX = 32, EDITS_MAX = 4096 };

struct mem {
	struct vcpu *cpu;
	uint8_t *host; /* physical address 0 */
	uint64_t size; /* reserved; what is behind it costs nothing until it is touched */
	uint64_t in_slots;
	uint32_t next_chunk;
	uint32_t *free_chunks;
	uint32_t free_chunks_count, free_chunks_room;
	struct area *areas;
	uint32_t areas_count, areas_room;
	struct block *blocks;
	uint32_t blocks_count, blocks_room;
	char **names;
	uint32_t names_count, names_room;
	uint64_t next_table; /* physical */
	uint64_t tables_end;
	uint32_t extra_tables[EXTRA_TABLES_MAX]; /* chunks that hold page tables */
	uint32_t extra_tables_count;
	uint32_t edits_count;
	bool is_broken; /* the editor failed: the tables are not what we think, and nothing may run */
	uint64_t heap_start;
	/* Clones only: below this everything is the snapshot's, and must not be thrown away. */
	uint32_t snapshot_chunks;
	/* Physical ranges behind which something else is mapped than at the snapshot. */
	struct remap *remaps;
	uint32_t remaps_count, remaps_room;
	struct edit edits[EDITS_MAX]; /* the last: see mem_open() */
};

/* Plain memory with nothing in it but what the processor needs. */
int mem_open(struct mem *m, uint64_t size, struct err *e);
void mem_close(struct mem *m);
/* Makes the processor see it, from scratch. */
int mem_attach(struct mem *m, struct vcpu *cpu, struct err *e);
/* Forgets everything that is mapped, for execve. */
int mem_clear(struct mem *m, struct err *e);

/* ---- what is mapped; all return 0 or a negative errno ---- */

struct area *mem_find(const struct mem *m, uint64_t address); /* the one that holds it, or NULL */
/* The first area that ends above the address: for walking. */
uint32_t mem_first(const struct mem *m, uint64_t address);
/* A free range, 0 if there is none. */
uint64_t mem_place(
	const struct mem *m, uint64_t hint, uint64_t length, unsigned protection, bool is_file);
bool mem_is_free(const struct mem *m, uint64_t start, uint64_t end);
/* Maps over whatever is there. The content is zero. */
int mem_map(struct mem *m, const struct area *area);
/* Likewise; the content is that of a file, shared with it if the area's kind says so. A shared
 * area without a file (fd -1) is shared with later children. */
int mem_map_file(struct mem *m, const struct area *area, int fd);
int mem_unmap(struct mem *m, uint64_t start, uint64_t end);
int mem_protect(struct mem *m, uint64_t start, uint64_t end, unsigned protection);
int mem_move(struct mem *m, uint64_t from, uint64_t to, uint64_t length);
/* What is shared stays so: the new area is the old one's file, whose range is then free. */
int mem_move_shared(struct mem *m, const struct area *area, uint64_t from, uint64_t length);
void mem_zero(struct mem *m, uint64_t start, uint64_t end);
bool mem_is_zero(const uint8_t *page);
uint32_t mem_name(struct mem *m, const char *name);

void *mem_grow(void *old, uint32_t *room, uint32_t wanted, size_t size);

/* Makes the processor notice all changes. Before the program goes on. */
int mem_flush(struct mem *m);

/* A page fault: 0 if the program may try again, or the signal's code (SEGV_…). */
int mem_fault(struct mem *m, uint64_t address, uint64_t error_code);

/* ---- the program's memory, for the VMM; bounds and rights are checked; 0 or -EFAULT ---- */

int mem_read(struct mem *m, void *to, uint64_t from, size_t size);
int mem_write(struct mem *m, uint64_t to, const void *from, size_t size);
/* Length of the string without its NUL; -ENAMETOOLONG if it does not fit with it. */
int mem_string(struct mem *m, char *to, uint64_t from, size_t size);
/* Where it is in our memory, in at most `max` pieces: for calls that read or write it directly.
 * Returns their number; fewer bytes than asked for if there are too many. */
int mem_pieces(
	struct mem *m, uint64_t address, uint64_t size, bool to_write, struct iovec *ret, int max);

#endif
