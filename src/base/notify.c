#include "base/notify.h"

#include "base/own.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FIRST_FD = 3 }; /* by the protocol */

int notify_send(const char *state, struct err *e)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	auto_close int fd = -1;
	size_t len;

	if (!path || !*path)
		return 0;
	len = strlen(path);
	if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(to.sun_path))
		return err_set(
			e, ERR_INPUT, "NOTIFY_SOCKET = '%.120s': want a path, or @name", path);
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0'; /* not in the file system; its length is part of its name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "make a socket for '%s'", path);
	len += offsetof(struct sockaddr_un, sun_path);
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, (socklen_t)len) <
		0)
		return err_sys(e, "tell the service manager at '%s'", path);
	return 0;
}

/* Digits only, no more than fit an int. */
static int parse_number(const char *text, int *ret)
{
	char *end;
	long number;

	if (!text || !isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	number = strtol(text, &end, 10);
	if (*end || errno || number > 0x7fffffff)
		return -1;
	*ret = (int)number;
	return 0;
}

static int option_of(int fd, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) ? -1 : value;
}

static int check_socket(int fd, int *ret_family, struct err *e)
{
	*ret_family = option_of(fd, SO_DOMAIN);
	if (*ret_family != AF_INET && *ret_family != AF_INET6 && *ret_family != AF_UNIX)
		return err_set(
			e, ERR_INPUT, "descriptor %d from LISTEN_FDS is no TCP or unix socket", fd);
	if (option_of(fd, SO_TYPE) != SOCK_STREAM || option_of(fd, SO_ACCEPTCONN) != 1)
		return err_set(e, ERR_INPUT,
			"descriptor %d from LISTEN_FDS does not listen for connections", fd);
	return 0;
}

int notify_take_sockets(struct notify_sockets *ret, struct err *e)
{
	struct notify_sockets found = { 0 };
	const char *text = getenv("LISTEN_FDS");
	int pid;
	int count;

	*ret = found;
	/* Meant for another process, whose child we are: not ours to take. */
	if (!text || parse_number(getenv("LISTEN_PID"), &pid) || pid != getpid())
		return 0;
	if (parse_number(text, &count) || count > NOTIFY_SOCKETS_MAX)
		return err_set(e, ERR_INPUT, "LISTEN_FDS = '%.40s': want a number from 0 to %d",
			text, NOTIFY_SOCKETS_MAX);
	for (int i = 0; i < count; i++) {
		found.at[i].fd = FIRST_FD + i;
		if (check_socket(FIRST_FD + i, &found.at[i].family, e))
			return -1;
	}
	found.count = (unsigned)count;
	for (int i = 0; i < count; i++)
		if (fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC))
			return err_sys(e, "set descriptor %d to close on exec", FIRST_FD + i);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	*ret = found;
	return 0;
}
