/* vmm_stats: what the machines of a run count, in a page that all of them share with the keeper. So
 * nothing is lost however a process ends, and nobody has to ask.
 *
 * The keeper empties it before a run, and a warm machine when it begins one: a rehearsal is no run. */
#ifndef HOTCELL_WIRE_VMM_STATS_H
#define HOTCELL_WIRE_VMM_STATS_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { VMM_CALL_NAME_MAX = 32 };

struct vmm_stats {
	_Atomic uint64_t exits;         /* how often a machine was left */
	_Atomic uint64_t unknown_calls; /* system calls that were answered with ENOSYS */
	_Atomic uint32_t is_named;      /* somebody has written, or is writing, the name */
	char missing_call
		[VMM_CALL_NAME_MAX]; /* the first of those that programs do not merely try */
};

static inline void vmm_stats_clear(struct vmm_stats *s)
{
	atomic_store(&s->exits, 0);
	atomic_store(&s->unknown_calls, 0);
	memset(s->missing_call, 0, sizeof(s->missing_call));
	atomic_store(&s->is_named, 0);
}

#endif
