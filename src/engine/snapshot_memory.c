/* A snapshot that serves many machines: in memory, in large pages. From there a machine meets a program's code by
 * 2 MiB at a time, and not page by page. */
#include "engine/snapshot.h"

#include "base/large.h"
#include "base/own.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As it is, or as it will be when `model` is copied to it. */
static void join(int fd, int model, uint64_t size)
{
	uint8_t *map = large_map(fd, size, PROT_READ);

	if (!map)
		return;
	if (model == fd)
		large_join(fd, map, 0, size);
	else
		large_prepare(fd, map, model, size);
	munmap(map, size);
}

int snapshot_bring_in(int fd)
{
	auto_close int copy = -1;
	struct stat status;
	struct err ignored = { 0 };

	if (fstat(fd, &status))
		return -1;
	/* One that this engine has made is in memory already. */
	if (fcntl(fd, F_GET_SEALS) >= 0) {
		join(fd, fd, (uint64_t)status.st_size);
		return -1;
	}
	copy = snapshot_new(&ignored);
	if (copy < 0 || ftruncate(copy, status.st_size))
		return -1;
	join(copy, fd, (uint64_t)status.st_size);
	if (snapshot_copy(fd, copy, (uint64_t)status.st_size) ||
		fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -1;
	return take_fd(&copy);
}
