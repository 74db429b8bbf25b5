#include "cli/show.h"

#include "base/own.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Waits until `fd` takes a small piece, or a signal comes: a reader that does not read must not
 * make us deaf. */
static void wait_for_room(struct show *s, int fd)
{
	struct pollfd fds[2] = {
		{ .fd = fd, .events = POLLOUT },
		{ .fd = s->signal_fd, .events = POLLIN },
	};

	if (poll(fds, 2, -1) > 0 && fds[1].revents)
		s->interrupted = true;
}

static void write_out(struct show *s, int fd, const char *data, size_t len)
{
	while (len && !s->interrupted && !s->error) {
		ssize_t n;

		wait_for_room(s, fd);
		if (s->interrupted)
			return;
		/* A pipe that has room has it for this much. */
		n = write(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			s->error = errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
}

void show_output(struct show *s, bool is_err, const char *data, size_t len)
{
	uint64_t room = s->most > s->shown[is_err] ? s->most - s->shown[is_err] : 0;

	if (len > room) {
		len = (size_t)room;
		s->was_cut[is_err] = true;
	}
	s->shown[is_err] += len;
	write_out(s, is_err ? STDERR_FILENO : STDOUT_FILENO, data, len);
}

int show_catch_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < COUNT(ending); i++) {
		struct sigaction now;

		if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
