#include "store_testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

void in_a_child(void (*body)(const char *dir), const char *dir)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		body(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

void tell(void *context, const struct err *e)
{
	struct told *told = context;

	told->times++;
	if (!e)
		return;
	told->failures++;
	told->e = *e;
}

void wait_until_told(struct store *s, const struct told *told, unsigned times)
{
	while (told->times < times) {
		struct pollfd ready = { .fd = store_fd(s), .events = POLLIN };

		poll(&ready, 1, -1);
		store_dispatch(s);
	}
}

struct store *open_store(const char *dir)
{
	struct store *s = NULL;
	struct err e;

	if (store_open(dir, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	return s;
}

int blob_of(struct store *s, const void *bytes, size_t size)
{
	struct err e;
	int fd = store_open_blob(s, &e);

	if (fd < 0) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	if (write(fd, bytes, size) != (ssize_t)size) {
		close(fd);
		return -1;
	}
	return fd;
}

void add_file(
	struct store *s, const char *id, const char *bytes, double expires_s, struct told *told)
{
	struct store_file file = { .owner = "me", .name = "a name", .expires_s = expires_s };

	snprintf(file.id, sizeof(file.id), "%s", id);
	file.created_s = now_s();
	store_add_file(s, &file, blob_of(s, bytes, strlen(bytes)), tell, told);
}

int keep_file(struct store *s, const char *id, const char *bytes, struct err *e)
{
	struct told told = { 0 };

	add_file(s, id, bytes, 0, &told);
	wait_until_told(s, &told, 1);
	*e = told.e;
	return told.failures ? -1 : 0;
}

int remove_file(struct store *s, const char *id, struct err *e)
{
	struct told told = { 0 };

	store_remove_file(s, id, tell, &told);
	wait_until_told(s, &told, 1);
	*e = told.e;
	return told.failures ? -1 : 0;
}

bool has_file(struct store *s, const char *id, const char *bytes)
{
	size_t size = strlen(bytes);
	struct store_file file;
	struct err e;
	char *read_back = calloc(1, size + 2);
	bool same;
	int fd;

	if (store_find_file(s, id, "me", &file, &e)) {
		free(read_back);
		return false;
	}
	fd = store_open_file(s, id, &e);
	same = file.size_bytes == size && fd >= 0 &&
	       read(fd, read_back, size + 1) == (ssize_t)size &&
	       memcmp(read_back, bytes, size) == 0;
	store_file_free(&file);
	if (fd >= 0)
		close(fd);
	free(read_back);
	return same;
}

static unsigned count_in(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir))) {
		char below[1024];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		count += entry->d_type == DT_DIR ? count_in(below) : 1;
	}
	if (dir)
		closedir(dir);
	return count;
}

unsigned count_bytes(const char *dir)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/files", dir);
	return count_in(path);
}

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
