/* snapshot_file: what stands in the file of a snapshot before its image.
 *
 *	header
 *	recipes_count × struct recipe, watches_count × struct epoll_watch
 *	areas, blocks, free chunks
 *	threads_count × struct saved_thread, each with its polls behind it
 *	names, words: strings with their NULs
 *	HOT_AT: hot_count × struct hot_range */
#ifndef HOTCELL_VMM_SNAPSHOT_FILE_H
#define HOTCELL_VMM_SNAPSHOT_FILE_H

#include "vmm/guest.h"
#include "vmm/hot.h"
#include "vmm/processor.h"

#define IMAGE (2UL << 20)
/* The last page before the image is for whoever keeps the file. */
#define HOT_AT         (IMAGE - 4096 - HOT_SIZE)
#define SNAPSHOT_MAGIC 0x6c6c6563746f68ULL /* "hotcell" */

enum { SNAPSHOT_VERSION = 8 };

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t is_pvm;
	uint64_t memory_size;
	uint64_t heap_start;
	uint32_t next_chunk;
	uint64_t next_table;
	uint64_t tables_end;
	uint32_t extra_tables[EXTRA_TABLES_MAX];
	uint32_t extra_tables_count;
	uint32_t recipes_count;
	uint32_t watches_count;
	uint32_t areas_count;
	uint32_t blocks_count;
	uint32_t free_chunks_count;
	uint32_t names_count;
	uint32_t names_size;
	uint32_t words_count; /* with which it was started: its program, and its environment */
	uint32_t words_at;    /* in the file */
	uint32_t threads_count;
	int32_t current;
	uint64_t ns_per_tsc_32;
	uint32_t hot_count; /* of the ranges at HOT_AT; 0: nothing is known */
	struct signal_action actions[SIGNALS_MAX + 1];
	char exe[PATH_SIZE];
	char comm[16];
	char features[PROCESSOR_FEATURES_SIZE]; /* asking KVM takes a third of a millisecond */
};

/* Threads with their places, so that `current` stays what it is. Behind each are the descriptors that
 * it waits for. */
struct saved_thread {
	int32_t index;
	struct thread thread;
};

/* Whether the bytes before the image of a file of `size` bytes can be read: counts fit, numbers are in
 * their bounds, strings end. They are sealed by whoever keeps the file, and made by us; but a seal is no
 * more than a hash, and nothing in here is to reach into our own memory because of a damaged disk. */
bool snapshot_is_sound(const uint8_t *file, uint64_t size);

#endif
