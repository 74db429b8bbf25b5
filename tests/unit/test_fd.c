#include "testing.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void *write_slowly(void *argument)
{
	int fd = *(int *)argument;

	for (int i = 0; i < 26; i++) {
		char c = (char)('a' + i);

		if (write(fd, &c, 1) != 1)
			break;
	}
	close(fd);
	return NULL;
}

static void reading_all_goes_on_over_short_counts(void **state)
{
	char text[27] = { 0 };
	pthread_t writer;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_slowly, &ends[1]), 0);
	assert_int_equal(fd_read_all(ends[0], text, 26), 0);
	assert_string_equal(text, "abcdefghijklmnopqrstuvwxyz");
	pthread_join(writer, NULL);
	close(ends[0]);
}

static void a_file_that_ends_early_is_told_as_enodata(void **state)
{
	char text[8];
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	close(ends[1]);
	assert_int_equal(fd_read_all(ends[0], text, 4), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(fd_read_all(ends[0], text, 0), 0);
	close(ends[0]);
}

struct reader {
	int fd;
	size_t total;
};

static void *read_everything(void *argument)
{
	struct reader *r = argument;
	char piece[1000];
	ssize_t n;

	while ((n = read(r->fd, piece, sizeof(piece))) > 0)
		r->total += (size_t)n;
	return NULL;
}

static void writing_all_fills_a_pipe_over_and_over(void **state)
{
	size_t size = 1 << 20;
	char *data = xalloc(size);
	struct reader reader = { 0 };
	pthread_t thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	reader.fd = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, read_everything, &reader), 0);
	assert_int_equal(fd_write_all(ends[1], data, size), 0);
	close(ends[1]);
	pthread_join(thread, NULL);
	assert_int_equal(reader.total, size);
	close(ends[0]);
	free(data);
}

static void writing_to_what_cannot_be_written_fails_with_errno(void **state)
{
	auto_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(fd_write_all(fd, "x", 1), -1);
	assert_int_equal(errno, EBADF);
}

static void slurping_gives_the_whole_file_up_to_a_size(void **state)
{
	const struct scratch *s = *state;
	auto_free char *large = xalloc(10001);
	auto_buf struct buf text = { 0 };
	struct err e = { 0 };

	memset(large, 'l', 10000);
	write_file(s->fd, "file", large);
	assert_int_equal(fd_slurp(s->fd, "file", 10000, &text, &e), 0);
	assert_int_equal(text.len, 10000);
	assert_string_equal(text.data, large);
	buf_clear(&text);
	assert_int_equal(fd_slurp(s->fd, "file", 9999, &text, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	buf_clear(&text);
	write_file(s->fd, "empty", "");
	assert_int_equal(fd_slurp(s->fd, "empty", 0, &text, &e), 0);
	assert_string_equal(text.data, "");
}

static void slurping_what_is_no_file_is_told_and_never_waits(void **state)
{
	const struct scratch *s = *state;
	auto_buf struct buf text = { 0 };
	struct err e = { 0 };

	assert_int_equal(fd_slurp(s->fd, "nothing", 100, &text, &e), -1);
	assert_int_equal(e.sys_errno, ENOENT);
	make_dir(s->fd, "dir");
	assert_int_equal(fd_slurp(s->fd, "dir", 100, &text, &e), -1);
	assert_int_equal(e.sys_errno, EISDIR);
	assert_int_equal(mkfifoat(s->fd, "fifo", 0600), 0);
	assert_int_equal(fd_slurp(s->fd, "fifo", 100, &text, &e), 0);
	assert_int_equal(text.len, 0);
}

static void one_line_files_are_read_without_their_line_end(void **state)
{
	const struct scratch *s = *state;
	char text[16];

	write_file(s->fd, "one", "memory pids \n");
	assert_int_equal(fd_read_text(s->fd, "one", text, sizeof(text)), 0);
	assert_string_equal(text, "memory pids");
	write_file(s->fd, "empty", "");
	assert_int_equal(fd_read_text(s->fd, "empty", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	write_file(s->fd, "long", "0123456789abcdefghij");
	assert_int_equal(fd_read_text(s->fd, "long", text, sizeof(text)), 0);
	assert_string_equal(text, "0123456789abcde");
	assert_int_equal(fd_read_text(s->fd, "nothing", text, sizeof(text)), -1);
	assert_int_equal(errno, ENOENT);
}

static void numbers_are_read_and_what_is_none_is_an_error(void **state)
{
	const struct scratch *s = *state;
	unsigned long long value = 0;

	write_file(s->fd, "n", "18446744073709551615\n");
	assert_int_equal(fd_read_u64(s->fd, "n", &value), 0);
	assert_true(value == 18446744073709551615ULL);
	write_file(s->fd, "n", "18446744073709551616\n");
	assert_int_equal(fd_read_u64(s->fd, "n", &value), -1);
	assert_int_equal(errno, ERANGE);
	write_file(s->fd, "n", "max\n");
	assert_int_equal(fd_read_u64(s->fd, "n", &value), -1);
	assert_int_equal(errno, EINVAL);
	write_file(s->fd, "n", "");
	assert_int_equal(fd_read_u64(s->fd, "n", &value), -1);
	assert_int_equal(fd_read_u64(s->fd, "nothing", &value), -1);
	assert_int_equal(errno, ENOENT);
}

static void text_is_written_to_files_that_are_there_and_makes_none(void **state)
{
	const struct scratch *s = *state;
	char text[16];

	write_file(s->fd, "limit", "");
	assert_int_equal(fd_write_text(s->fd, "limit", "+memory"), 0);
	assert_int_equal(fd_read_text(s->fd, "limit", text, sizeof(text)), 0);
	assert_string_equal(text, "+memory");
	assert_int_equal(fd_write_text(s->fd, "nothing", "x"), -1);
	assert_int_equal(errno, ENOENT);
}

static void nonblocking_goes_on_and_off_and_leaves_other_flags_alone(void **state)
{
	int ends[2];
	char c;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_DIRECT), 0);
	assert_true(fd_set_nonblock(ends[0], true) >= 0);
	assert_int_equal(read(ends[0], &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(fd_set_nonblock(ends[0], false) >= 0);
	assert_false(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	/* The write end of such a pipe has a flag that can be set and cleared too. */
	assert_true(fcntl(ends[1], F_GETFL) & O_DIRECT);
	assert_true(fd_set_nonblock(ends[1], true) >= 0);
	assert_true(fd_set_nonblock(ends[1], false) >= 0);
	assert_true(fcntl(ends[1], F_GETFL) & O_DIRECT);
	assert_int_equal(fd_set_nonblock(-1, true), -1);
	close(ends[0]);
	close(ends[1]);
}

/* What fd `number` is, as the kernel names it. */
static bool is_same_file(int number, const struct stat *want)
{
	struct stat now;

	return fstat(number, &now) == 0 && now.st_dev == want->st_dev && now.st_ino == want->st_ino;
}

/* In a child: it closes nearly everything. The exit code says which claim failed. */
static int arrange_in_child(const char *dir)
{
	enum { BASE = 10, COUNT_FDS = 4 };
	struct stat want[COUNT_FDS];
	int fds[COUNT_FDS];

	for (int i = 0; i < COUNT_FDS; i++) {
		char name[256];
		int fd;

		snprintf(name, sizeof(name), "%s/%d", dir, i);
		fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		/* In reverse order right on the targets: every move could overwrite another. */
		fds[i] = BASE + COUNT_FDS - 1 - i;
		if (fd < 0 || fstat(fd, &want[i]) || dup3(fd, fds[i], O_CLOEXEC) < 0)
			return 1;
		close(fd);
	}
	if (dup2(2, 100) != 100 || fd_arrange(fds, COUNT_FDS, BASE))
		return 2;
	for (int i = 0; i < COUNT_FDS; i++)
		if (fds[i] != BASE + i || !is_same_file(BASE + i, &want[i]) ||
			!(fcntl(BASE + i, F_GETFD) & FD_CLOEXEC))
			return 3;
	for (int fd = BASE + COUNT_FDS; fd < 200; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 4;
	if (fcntl(2, F_GETFD) < 0)
		return 5;
	/* A place may be left empty: then it is closed. */
	fds[1] = -1;
	if (fd_arrange(fds, COUNT_FDS, BASE) || fcntl(BASE + 1, F_GETFD) >= 0 ||
		!is_same_file(BASE, &want[0]) || !is_same_file(BASE + 2, &want[2]))
		return 6;
	if (dup2(2, 99) < 0 || dup2(2, 100) < 0 || dup2(2, 101) < 0 || dup2(2, 102) < 0 ||
		fd_arrange_beside(fds, COUNT_FDS, BASE, 100, 2))
		return 7;
	if (fcntl(99, F_GETFD) >= 0 || fcntl(100, F_GETFD) < 0 || fcntl(101, F_GETFD) < 0 ||
		fcntl(102, F_GETFD) >= 0)
		return 8;
	return 0;
}

static void a_handle_can_be_given_a_mode_and_opened(void **state)
{
	const struct scratch *s = *state;
	auto_close int file = open(in(s->path, "locked"), O_RDWR | O_CREAT | O_CLOEXEC, 0000);
	auto_close int handle = open(in(s->path, "locked"), O_PATH | O_CLOEXEC);
	auto_close int proc = open("/proc", O_PATH | O_CLOEXEC);
	struct stat status;

	assert_int_equal(fd_chmod_handle(handle, 0640), 0);
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
	fd_set_proc(proc);
	assert_int_equal(fd_chmod_handle(handle, 0600), 0);
	close(fd_open_handle(handle, O_RDONLY));
	fd_set_proc(-1);
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
}

static void arranging_puts_each_in_its_place_and_closes_the_rest(void **state)
{
	const struct scratch *s = *state;
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(arrange_in_child(s->path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reading_all_goes_on_over_short_counts),
		TEST(a_file_that_ends_early_is_told_as_enodata),
		TEST(writing_all_fills_a_pipe_over_and_over),
		TEST(writing_to_what_cannot_be_written_fails_with_errno),
		TEST_IN_SCRATCH(slurping_gives_the_whole_file_up_to_a_size),
		TEST_IN_SCRATCH(slurping_what_is_no_file_is_told_and_never_waits),
		TEST_IN_SCRATCH(one_line_files_are_read_without_their_line_end),
		TEST_IN_SCRATCH(numbers_are_read_and_what_is_none_is_an_error),
		TEST_IN_SCRATCH(text_is_written_to_files_that_are_there_and_makes_none),
		TEST(nonblocking_goes_on_and_off_and_leaves_other_flags_alone),
		TEST_IN_SCRATCH(arranging_puts_each_in_its_place_and_closes_the_rest),
		TEST_IN_SCRATCH(a_handle_can_be_given_a_mode_and_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
