#include "vmm/stats.h"

#include "vmm/calls.h"
#include "wire/vmm_start.h"
#include "wire/vmm_stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static struct vmm_stats own;
static struct vmm_stats *stats = &own;

void stats_open(void)
{
	void *page =
		mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, VMM_STATS_FD, 0);

	if (page != MAP_FAILED)
		stats = page;
}

void stats_clear(void)
{
	vmm_stats_clear(stats);
}

void stats_read(struct vm_counts *ret)
{
	*ret = (struct vm_counts){
		.exits = atomic_load(&stats->exits),
		.unknown_calls = atomic_load(&stats->unknown_calls),
	};
	memcpy(ret->missing_call, stats->missing_call, sizeof(ret->missing_call) - 1);
}

void stats_count_exit(void)
{
	atomic_fetch_add_explicit(&stats->exits, 1, memory_order_relaxed);
}

void stats_count_unknown(uint64_t number)
{
	const struct call_row *row = call_find(number);

	atomic_fetch_add(&stats->unknown_calls, 1);
	if (call_is_missed(row) && !atomic_exchange(&stats->is_named, 1))
		snprintf(stats->missing_call, sizeof(stats->missing_call), "%s", row->name);
}
