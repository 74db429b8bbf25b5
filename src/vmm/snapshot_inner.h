/* snapshot_inner: what the files that write, load and verify snapshots share. */
#ifndef HOTCELL_VMM_SNAPSHOT_INNER_H
#define HOTCELL_VMM_SNAPSHOT_INNER_H

#include "base/buf.h"
#include "vmm/recipe.h"
#include "vmm/snapshot_file.h"

/* Of the snapshot that was loaded, mapped for reading. */
const struct header *snapshot_header(void);
const uint8_t *snapshot_image(void);
uint64_t snapshot_image_size(void);
struct recipes snapshot_recipes(void);
int snapshot_fd(void);

/* Descriptors can only be taken once, from a program that ends. */
struct snapshot_taken {
	struct buf recipes;
	uint32_t recipes_count;
	struct buf watches;
	uint32_t watches_count;
};

/* All that stands before the image, with the first `names_count` names. */
void snapshot_add_books(const struct guest *g, uint32_t names_count,
	const struct snapshot_taken *taken, bool time_stands, struct buf *books);

#endif
