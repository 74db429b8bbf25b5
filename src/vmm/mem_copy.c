/* The program's memory, for the VMM: every address is the program's word, and looked at. */
#include "vmm/mem.h"

#include "vmm/stub/layout.h"
#include "vmm/tables.h"
#include "vmm/try.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { STRING_STEP = 256 };

int mem_pieces(
	struct mem *m, uint64_t address, uint64_t size, bool to_write, struct iovec *ret, int max)
{
	int count = 0;

	while (size && count < max) {
		const struct area *a = address >= LOW_END ? mem_find(m, address) : NULL;
		uint64_t end;
		struct block *b;

		if (!a || !(a->protection &
				  (to_write ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC)))
			return count ? count : -EFAULT;
		end = to_block_end(address, a->end);
		if (end - address > size)
			end = address + size;
		b = tables_block(m, address);
		if (!b) {
			if (tables_sync(
				    m, PAGE_DOWN(address), PAGE_DOWN(address) + PAGE, TABLES_BIND))
				return count ? count : -EFAULT;
			b = tables_block(m, address);
		}
		ret[count].iov_base = m->host + (uint64_t)b->chunk * CHUNK + address % CHUNK;
		ret[count].iov_len = end - address;
		/* Often one area follows on another. */
		if (count && (uint8_t *)ret[count - 1].iov_base + ret[count - 1].iov_len ==
				     (uint8_t *)ret[count].iov_base)
			ret[count - 1].iov_len += ret[count].iov_len;
		else
			count++;
		size -= end - address;
		address = end;
	}
	return count;
}

static int copy(struct mem *m, uint8_t *ours, uint64_t address, size_t size, bool to_write)
{
	while (size) {
		struct iovec piece;

		if (mem_pieces(m, address, size, to_write, &piece, 1) != 1)
			return -EFAULT;
		if (to_write ? try_copy(piece.iov_base, ours, piece.iov_len) :
			       try_copy(ours, piece.iov_base, piece.iov_len))
			return -EFAULT;
		ours += piece.iov_len;
		address += piece.iov_len;
		size -= piece.iov_len;
	}
	return 0;
}

int mem_read(struct mem *m, void *to, uint64_t from, size_t size)
{
	return copy(m, to, from, size, false);
}

int mem_write(struct mem *m, uint64_t to, const void *from, size_t size)
{
	return copy(m, (uint8_t *)(uintptr_t)from, to, size, true);
}

int mem_string(struct mem *m, char *to, uint64_t from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct iovec piece;
		const char *end;
		size_t len;

		if (mem_pieces(m, from + done, size - done, false, &piece, 1) != 1)
			return -EFAULT;
		len = piece.iov_len < STRING_STEP ? piece.iov_len : STRING_STEP;
		/* Not beyond the page that it may end in: the next one may have no memory. */
		if ((from + done) % PAGE + len > PAGE)
			len = PAGE - (from + done) % PAGE;
		if (try_copy(to + done, piece.iov_base, len))
			return -EFAULT;
		/* Looked for in our copy: another process may be writing to shared memory. */
		end = memchr(to + done, '\0', len);
		if (end)
			return (int)(end - to);
		done += len;
	}
	return -ENAMETOOLONG;
}
