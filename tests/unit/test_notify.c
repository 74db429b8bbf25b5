#include "testing.h"

#include "base/notify.h"
#include "base/own.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- telling ---- */

/* A manager's socket at `path`, or with a name that is in no file system if that begins with '@'. */
static int manager_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(address.sun_path, path, strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	setenv("NOTIFY_SOCKET", path, 1);
	return fd;
}

static void is_told(int fd, const char *want)
{
	char text[128];
	ssize_t len = recv(fd, text, sizeof(text) - 1, 0);

	assert_int_equal(len, strlen(want));
	assert_memory_equal(text, want, strlen(want));
}

static void a_manager_is_told_in_one_datagram(void **state)
{
	struct scratch *s = *state;
	auto_close int fd = manager_at(in(s->path, "notify"));
	struct err e = { 0 };

	assert_int_equal(notify_send("READY=1\nSTATUS=warm", &e), 0);
	is_told(fd, "READY=1\nSTATUS=warm");
	assert_int_equal(notify_send("STOPPING=1", &e), 0);
	is_told(fd, "STOPPING=1");
}

static void a_manager_may_have_a_name_in_no_file_system(void **state)
{
	char name[64];
	struct err e = { 0 };

	(void)state;
	snprintf(name, sizeof(name), "@hotcell-test-%d", (int)getpid());
	auto_close int fd = manager_at(name);
	assert_int_equal(notify_send("READY=1", &e), 0);
	is_told(fd, "READY=1");
}

static void without_a_manager_nothing_is_told_and_nothing_fails(void **state)
{
	struct err e = { 0 };

	(void)state;
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify_send("READY=1", &e), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(notify_send("READY=1", &e), 0);
}

static void an_address_that_is_none_is_told(void **state)
{
	char too_long[200] = "/";
	const char *const wrong[] = { "relative", "@", "/", "vsock:1:2", too_long };
	struct err e = { 0 };

	(void)state;
	memset(too_long + 1, 'x', sizeof(too_long) - 2);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		setenv("NOTIFY_SOCKET", wrong[i], 1);
		assert_int_equal(notify_send("READY=1", &e), -1);
		assert_int_equal(e.kind, ERR_INPUT);
	}
	setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
	assert_int_equal(notify_send("READY=1", &e), -1);
	assert_int_equal(e.kind, ERR_SYSTEM);
	assert_non_null(strstr(e.text, "/nowhere/at/all"));
	unsetenv("NOTIFY_SOCKET");
}

/* ---- taking sockets ---- */

static int tcp_socket(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 1) ? -1 : fd;
}

static int unix_socket(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	/* Without a name the kernel gives one. */
	return bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) || listen(fd, 1) ? -1 : fd;
}

static int silent_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int datagram_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM, 0);
}

static int no_socket(void)
{
	return open("/dev/null", O_RDONLY);
}

/* In a child, since the numbers 3 and up are the test program's own: hands these over, and gives what came out:
 * the count, or -1 if it was refused; -2 if a claim does not hold. */
static int taken(int (*const *make)(void), const char *count, bool for_us)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct notify_sockets got;
		struct err e = { 0 };
		char text[16];
		int end = 3;

		for (; *make; make++, end++) {
			int fd = (*make)();

			if (fd < 0)
				_exit(100);
			if (fd != end) {
				dup2(fd, end);
				close(fd);
			}
		}
		close(end);
		snprintf(text, sizeof(text), "%d", (int)getpid() + !for_us);
		setenv("LISTEN_PID", text, 1);
		setenv("LISTEN_FDS", count, 1);
		setenv("LISTEN_FDNAMES", "a:b", 1);
		if (notify_take_sockets(&got, &e))
			_exit(e.kind == ERR_INPUT && got.count == 0 ? 101 : 100);
		for (unsigned i = 0; i < got.count; i++)
			if (got.at[i].fd != 3 + (int)i ||
				fcntl(got.at[i].fd, F_GETFD) != FD_CLOEXEC ||
				got.at[i].family != (i ? AF_UNIX : AF_INET))
				_exit(100);
		if (got.count &&
			(getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES")))
			_exit(100);
		_exit((int)got.count);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	status = WEXITSTATUS(status);
	return status == 101 ? -1 : status == 100 ? -2 : status;
}

#define TAKEN(count, for_us, ...) taken((int (*const[])(void)){ __VA_ARGS__, NULL }, count, for_us)

static void sockets_that_listen_are_taken_in_order_and_once(void **state)
{
	(void)state;
	assert_int_equal(TAKEN("2", true, tcp_socket, unix_socket), 2);
	assert_int_equal(TAKEN("1", true, tcp_socket), 1);
	assert_int_equal(TAKEN("0", true, tcp_socket), 0);
}

static void sockets_for_another_process_are_left_alone(void **state)
{
	(void)state;
	assert_int_equal(TAKEN("2", false, tcp_socket, unix_socket), 0);
}

static void what_does_not_listen_is_refused(void **state)
{
	(void)state;
	assert_int_equal(TAKEN("2", true, tcp_socket, silent_socket), -1);
	assert_int_equal(TAKEN("2", true, tcp_socket, datagram_socket), -1);
	assert_int_equal(TAKEN("2", true, tcp_socket, no_socket), -1);
	assert_int_equal(TAKEN("2", true, tcp_socket), -1); /* the second is closed */
}

static void a_number_that_is_none_is_refused(void **state)
{
	static const char *const wrong[] = { "", "-1", "x", "1x", "17", "99999999999999999999" };

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++)
		assert_int_equal(TAKEN(wrong[i], true, tcp_socket), -1);
}

static void without_a_manager_there_are_no_sockets(void **state)
{
	struct notify_sockets got = { .count = 7 };
	struct err e = { 0 };

	(void)state;
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	assert_int_equal(notify_take_sockets(&got, &e), 0);
	assert_int_equal(got.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(a_manager_is_told_in_one_datagram),
		TEST(a_manager_may_have_a_name_in_no_file_system),
		TEST(without_a_manager_nothing_is_told_and_nothing_fails),
		TEST(an_address_that_is_none_is_told),
		TEST(sockets_that_listen_are_taken_in_order_and_once),
		TEST(sockets_for_another_process_are_left_alone),
		TEST(what_does_not_listen_is_refused),
		TEST(a_number_that_is_none_is_refused),
		TEST(without_a_manager_there_are_no_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
