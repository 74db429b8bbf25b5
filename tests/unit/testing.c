#include "testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int scratch_make(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));
	/* In memory where that can be had: ten thousand directories take seconds on a disk. */
	bool has_shm = access("/dev/shm", W_OK | X_OK) == 0;

	assert_non_null(s);
	snprintf(s->path, sizeof(s->path), "%s/hotcell-test.XXXXXX", has_shm ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(s->path));
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(s->fd >= 0);
	*state = s;
	return 0;
}

int scratch_clear(void **state)
{
	struct scratch *s = *state;
	char command[256];
	int status;

	/* Not by the code under test. */
	snprintf(command, sizeof(command), "chmod -R u+rwx %s 2>/dev/null; rm -rf %s", s->path,
		s->path);
	status = system(command);
	close(s->fd);
	free(s);
	return status;
}

const char *in(const char *dir, const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

void write_file(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

void make_dir(int dir_fd, const char *name)
{
	assert_int_equal(mkdirat(dir_fd, name, 0755), 0);
}

int make_deep(int dir_fd, const char *name, unsigned count)
{
	int fd = dup(dir_fd);

	for (unsigned i = 0; i < count; i++) {
		int next;

		make_dir(fd, name);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	return fd;
}

unsigned count_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}
