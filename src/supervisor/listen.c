#include "supervisor/listen.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/own.h"
#include "base/path.h"
#include "config/places.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)
				       ->sin_addr.s_addr) >>
			       24 ==
		       127;
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(
		       &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int open_address(
	const struct addrinfo *a, const char *host, const char *port, int *ret, struct err *e)
{
	auto_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return err_sys(e, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG))
		return err_sys(e, "listen on %s port %s", host, port);
	*ret = take_fd(&fd);
	return 0;
}

static int open_tcp(const struct config *c, struct daemon_start *ret, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	char port[8];
	int failed;

	snprintf(port, sizeof(port), "%u", (unsigned)c->port);
	failed = getaddrinfo(c->host, port, &hints, &found);
	if (failed)
		return err_set(e, ERR_INPUT, "host = '%s': %s", c->host, gai_strerror(failed));
	/* A name may have several: the first is what clients try first. */
	ret->is_loopback &= is_loopback(found->ai_addr);
	failed = open_address(found, c->host, port, &ret->listeners[ret->listeners_count].fd, e);
	if (!failed)
		ret->listeners_count++;
	freeaddrinfo(found);
	return failed;
}

/* Whether somebody answers there. */
static bool is_alive(const struct sockaddr_un *address)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
}

/* Of a socket; "" if it is in the working directory. To be freed. */
static char *dir_of(const char *path)
{
	return xasprintf("%.*s", (int)(path_base(path) - path), path);
}

/* For all to pass through: who may connect, we look at ourselves. But where nobody has named it, it is an ordinary user's
 * own, in /tmp perhaps, where others may have been before us. */
static int make_dir(const char *path, struct daemon_start *ret, struct err *e)
{
	auto_free char *dir = dir_of(path);
	auto_free char *by_default = places_socket();
	bool is_default = by_default && strcmp(path, by_default) == 0;
	bool is_private = is_default && geteuid() != 0;

	if (!*dir)
		return 0;
	if (mkdir(dir, is_private ? 0700 : 0755) == 0)
		ret->has_made_dir = is_private;
	else if (errno != EEXIST)
		return err_sys(e, "make '%s'", dir);
	return is_default ? places_check_socket(path, e) : 0;
}

static int open_unix(const char *path, struct daemon_start *ret, struct err *e)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;

	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(e, ERR_INPUT, "socket = '%s': want at most %zu letters", path,
			sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (make_dir(path, ret, e))
		return -1;
	if (is_alive(&address))
		return err_set(e, ERR_INPUT, "another service listens on '%s' already", path);
	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
		unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || chmod(path, 0666) ||
		listen(fd, BACKLOG))
		return err_sys(e, "listen on '%s'", path);
	ret->listeners[ret->listeners_count++] = (struct listener){ take_fd(&fd), true };
	return 0;
}

/* Whether the modes of its file keep somebody from connecting: a manager that says who may, has said it for us, too. */
static bool is_guarded(int fd)
{
	struct sockaddr_un address = { 0 };
	socklen_t len = sizeof(address) - 1;
	struct stat status;

	return getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
	       address.sun_path[0] == '/' && stat(address.sun_path, &status) == 0 &&
	       !(status.st_mode & S_IWOTH);
}

static int take_handed(const struct notify_sockets *handed, struct daemon_start *ret)
{
	ret->is_handed = ret->is_guarded = true;
	log_info("sockets.handed", { "count", .number = handed->count },
		{ "text", .text = "the settings host, port and socket do not count" });
	for (unsigned i = 0; i < handed->count; i++) {
		struct sockaddr_storage address = { 0 };
		socklen_t len = sizeof(address);
		bool is_local = handed->at[i].family == AF_UNIX;

		if (!is_local &&
			(getsockname(handed->at[i].fd, (struct sockaddr *)&address, &len) ||
				!is_loopback((struct sockaddr *)&address)))
			ret->is_loopback = false;
		if (is_local && !is_guarded(handed->at[i].fd))
			ret->is_guarded = false;
		ret->listeners[ret->listeners_count++] =
			(struct listener){ handed->at[i].fd, is_local };
	}
	return 0;
}

int listen_open(const struct config *c, struct daemon_start *ret, struct err *e)
{
	struct notify_sockets handed = { 0 };

	ret->is_loopback = true;
	if (notify_take_sockets(&handed, e))
		return -1;
	if (handed.count)
		return take_handed(&handed, ret);
	if (*c->host && open_tcp(c, ret, e))
		return -1;
	if (strcmp(c->socket, "none") != 0 && open_unix(c->socket, ret, e))
		return -1;
	return ret->listeners_count ?
		       0 :
		       err_set(e, ERR_INPUT,
			       "neither host nor socket is set: nobody could reach it");
}

void listen_close(const struct config *c, struct daemon_start *start)
{
	auto_free char *dir = dir_of(c->socket);

	for (unsigned i = 0; i < start->listeners_count; i++) {
		own_close(&start->listeners[i].fd);
		if (start->listeners[i].is_local && !start->is_handed)
			unlink(c->socket);
	}
	if (start->has_made_dir)
		rmdir(dir);
}

/* ---- telling ---- */

static void add_place(struct buf *to, const char *format, const char *first, const char *second)
{
	if (to->len)
		buf_add_str(to, ",");
	buf_addf(to, format, first, second);
}

/* As the kernel has it: a manager may have opened it, and a name may have become a number. */
static void describe_listener(int fd, struct buf *addresses, struct buf *sockets)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr *any = (struct sockaddr *)&address;
	socklen_t len = sizeof(address);
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];

	if (getsockname(fd, any, &len))
		return;
	if (any->sa_family == AF_UNIX)
		add_place(sockets, "%s%s", ((struct sockaddr_un *)any)->sun_path, "");
	else if (getnameinfo(any, len, host, sizeof(host), port, sizeof(port),
			 NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		add_place(addresses, any->sa_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s",
			host, port);
}

void listen_tell(const struct daemon_start *start)
{
	auto_buf struct buf addresses = { 0 };
	auto_buf struct buf sockets = { 0 };

	for (unsigned i = 0; i < start->listeners_count; i++)
		describe_listener(start->listeners[i].fd, &addresses, &sockets);
	log_info("serve.listening", { "address", .text = addresses.data ? addresses.data : "none" },
		{ "socket", .text = sockets.data ? sockets.data : "none" });
}
