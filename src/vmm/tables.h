/* tables: the processor's page tables, made from what is mapped. Used by mem.c, mem_copy.c and hot.c. */
#ifndef HOTCELL_VMM_TABLES_H
#define HOTCELL_VMM_TABLES_H

#include "vmm/mem.h"

/* The lowest 2 MiB: see stub/layout.h. Memory there must be zero. */
void tables_init(struct mem *m, bool is_pvm);

enum tables_how {
	TABLES_BIND,    /* blocks get chunks, and entries are made */
	TABLES_PRESENT, /* only blocks that have a chunk are looked at */
	TABLES_LAZY,    /* likewise, and what is absent stays so until it is touched */
};
/* Makes the tables say what the areas say. -ENOMEM if chunks or tables run out. */
int tables_sync(struct mem *m, uint64_t start, uint64_t end, enum tables_how how);

/* `end`, or where the block ends that holds `start`. */
static inline uint64_t to_block_end(uint64_t start, uint64_t end)
{
	uint64_t next = (start / CHUNK + 1) * CHUNK;

	return next < end ? next : end;
}

struct block *tables_block(const struct mem *m, uint64_t address); /* NULL if it has no chunk */
struct block *tables_bind(struct mem *m, uint64_t address);        /* NULL: no memory */
/* The first block that has a chunk and ends above `start`, if it begins below `end`; else NULL. For
 * walking: a range may be of 47 bits, what is behind it is not. */
struct block *tables_first(const struct mem *m, uint64_t start, uint64_t end);
/* Nothing is mapped in this block any more. */
void tables_unbind(struct mem *m, struct block *block);

/* Writes an entry: at once if it is absent, else by the editor, in mem_flush(). */
void tables_put(struct mem *m, uint64_t *entry, uint64_t value, uint64_t address);

/* A program's code and the constants beside it get one large entry for each block that they fill, in which the
 * constants can be executed, too. For the memory of a machine that is no more: others start from it, and meet each
 * such block once. */
void tables_join(struct mem *m);

/* Whether the processor would find an entry with these rights. */
bool tables_allow(const struct mem *m, uint64_t address, bool to_write, bool to_execute);

#endif
