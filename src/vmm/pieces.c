#include "vmm/pieces.h"

#include "vmm/try.h"

#include <errno.h>
#include <string.h>

static int add(struct guest *g, struct pieces *p, uint64_t address, uint64_t size, bool to_write)
{
	int got;

	if (size > PIECES_BYTES_MAX - p->size)
		size = PIECES_BYTES_MAX - p->size;
	if (size == 0 || p->count == PIECES_MAX)
		return 0;
	got = mem_pieces(
		&g->mem, address, size, to_write, p->room + p->count, PIECES_MAX - p->count);
	if (got < 0)
		return got;
	for (int i = 0; i < got; i++)
		p->size += p->room[p->count + i].iov_len;
	p->count += got;
	return 0;
}

int pieces_one(struct guest *g, struct pieces *p, uint64_t address, uint64_t size, bool to_write)
{
	p->at = p->room;
	p->count = 0;
	p->size = 0;
	return add(g, p, address, size, to_write);
}

int pieces_vector(struct guest *g, struct pieces *p, uint64_t array, uint64_t count, bool to_write)
{
	struct iovec theirs[PIECES_MAX];
	uint64_t wanted = 0;
	int result;

	p->at = p->room;
	p->count = 0;
	p->size = 0;
	if (count > PIECES_MAX)
		return -EINVAL;
	result = mem_read(&g->mem, theirs, array, count * sizeof(*theirs));
	for (uint64_t i = 0; i < count && result == 0; i++) {
		if (theirs[i].iov_len > INT64_MAX)
			return -EINVAL;
		/* After a gap nothing may follow: the bytes would land in the wrong place. */
		if (p->size != wanted)
			break;
		wanted += theirs[i].iov_len;
		result = add(
			g, p, (uint64_t)(uintptr_t)theirs[i].iov_base, theirs[i].iov_len, to_write);
	}
	/* What comes before a bad address still counts. */
	return p->size ? 0 : result;
}

void pieces_skip(struct pieces *p, uint64_t size)
{
	if (size > p->size)
		size = p->size;
	p->size -= size;
	while (size) {
		uint64_t part = p->at->iov_len < size ? p->at->iov_len : size;

		p->at->iov_base = (uint8_t *)p->at->iov_base + part;
		p->at->iov_len -= part;
		size -= part;
		if (p->at->iov_len == 0) {
			p->at++;
			p->count--;
		}
	}
}

static size_t copy(const struct pieces *p, uint8_t *ours, size_t size, bool is_out)
{
	size_t done = 0;

	for (int i = 0; i < p->count && done < size; i++) {
		size_t part = p->at[i].iov_len < size - done ? p->at[i].iov_len : size - done;

		if (is_out ? try_copy(p->at[i].iov_base, ours + done, part) :
			     try_copy(ours + done, p->at[i].iov_base, part))
			break;
		done += part;
	}
	return done;
}

size_t pieces_copy_out(const struct pieces *p, const void *from, size_t size)
{
	return copy(p, (uint8_t *)(uintptr_t)from, size, true);
}

size_t pieces_copy_in(const struct pieces *p, void *to, size_t size)
{
	return copy(p, to, size, false);
}
