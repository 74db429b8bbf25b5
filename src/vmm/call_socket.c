#include "vmm/call_socket.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/fds.h"
#include "vmm/thread.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* ---- which sockets there are ---- */

/* Each family and type is code of the host's kernel that a guest can reach: these are the ones that
 * programs use among themselves. */
static bool is_allowed(int family, int type)
{
	type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (family == AF_UNIX)
		return type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
	return (family == AF_INET || family == AF_INET6) &&
	       (type == SOCK_STREAM || type == SOCK_DGRAM);
}

static bool is_allowed_protocol(int family, int protocol)
{
	if (family == AF_UNIX)
		return protocol == 0 || protocol == AF_UNIX;
	return protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

int64_t call_socket(struct guest *g, const uint64_t a[6])
{
	if (!is_allowed((int)a[0], (int)a[1]))
		return -EAFNOSUPPORT;
	if (!is_allowed_protocol((int)a[0], (int)a[2]))
		return -EPROTONOSUPPORT;
	return fds_new(g, socket((int)a[0], (int)a[1], (int)a[2]));
}

int64_t call_socketpair(struct guest *g, const uint64_t a[6])
{
	int pair[2];
	int first;
	int second;

	if ((int)a[0] != AF_UNIX || !is_allowed((int)a[0], (int)a[1]))
		return -EOPNOTSUPP;
	if (!is_allowed_protocol((int)a[0], (int)a[2]))
		return -EPROTONOSUPPORT;
	if (socketpair((int)a[0], (int)a[1], (int)a[2], pair))
		return -errno;
	first = fds_new(g, pair[0]);
	second = fds_new(g, pair[1]);
	if (first >= 0 && second >= 0 && mem_write(&g->mem, a[3], pair, sizeof(pair)) == 0)
		return 0;
	if (first >= 0)
		close(first);
	if (second >= 0)
		close(second);
	return first < 0 || second < 0 ? -EMFILE : -EFAULT;
}

/* ---- addresses ---- */

struct address {
	struct sockaddr_storage storage;
	socklen_t length;
};

static int read_address(struct guest *g, uint64_t from, uint64_t length, struct address *ret)
{
	if ((uint32_t)length > sizeof(ret->storage))
		return -EINVAL;
	ret->length = (socklen_t)length;
	return mem_read(&g->mem, &ret->storage, from, ret->length);
}

/* As the kernel does it: as much as fits, and the full length. */
static int write_address(
	struct guest *g, uint64_t to, uint64_t to_length, const struct address *from)
{
	int32_t room;
	socklen_t length = from->length;

	if (!to)
		return 0;
	if (mem_read(&g->mem, &room, to_length, sizeof(room)))
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	if (length > sizeof(from->storage))
		length = sizeof(from->storage);
	if ((socklen_t)room < length)
		length = (socklen_t)room;
	if (mem_write(&g->mem, to, &from->storage, length))
		return -EFAULT;
	return mem_write(&g->mem, to_length, &from->length, sizeof(from->length));
}

int64_t call_bind(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct address address;
	int result;

	if (fd < 0)
		return fd;
	result = read_address(g, a[1], a[2], &address);
	if (result)
		return result;
	return host_result(bind(fd, (struct sockaddr *)&address.storage, address.length));
}

int64_t call_getsockname(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct address address = { .length = sizeof(address.storage) };

	if (fd < 0)
		return fd;
	if (getsockname(fd, (struct sockaddr *)&address.storage, &address.length))
		return -errno;
	return write_address(g, a[1], a[2], &address);
}

int64_t call_getpeername(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct address address = { .length = sizeof(address.storage) };

	if (fd < 0)
		return fd;
	if (getpeername(fd, (struct sockaddr *)&address.storage, &address.length))
		return -errno;
	return write_address(g, a[1], a[2], &address);
}

/* ---- connections ---- */

int64_t call_listen(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(listen(fd, (int)a[1]));
}

/* accept() cannot be told not to block. When poll has seen a connection, only another process with
 * the same socket can have been faster; then we block as the program would have. */
int64_t call_accept4(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct address address = { .length = sizeof(address.storage) };
	int accepted;
	int result;

	if (fd < 0)
		return fd;
	if (poll(&poll_fd, 1, 0) == 0)
		return file_wait(g, fd, POLLIN);
	accepted = accept4(fd, (struct sockaddr *)&address.storage, &address.length, (int)a[3]);
	if (accepted < 0 && (errno == EINTR || errno == EAGAIN))
		return file_wait(g, fd, POLLIN);
	accepted = fds_new(g, accepted);
	if (accepted < 0)
		return accepted;
	result = write_address(g, a[1], a[2], &address);
	if (result == 0)
		return accepted;
	close(accepted);
	return result;
}

int64_t call_accept(struct guest *g, const uint64_t a[6])
{
	return call_accept4(g, (uint64_t[6]){ a[0], a[1], a[2], 0 });
}

/* connect() cannot be told not to block, but its description can for the moment. */
static int64_t connect_without_blocking(int fd, int flags, const struct address *to)
{
	int64_t result;

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	result = host_result(connect(fd, (const struct sockaddr *)&to->storage, to->length));
	fcntl(fd, F_SETFL, flags);
	return result;
}

int64_t call_connect(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct address address;
	int flags;
	int64_t result;

	if (fd < 0)
		return fd;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	result = read_address(g, a[1], a[2], &address);
	if (result)
		return result;
	if (flags & O_NONBLOCK)
		return host_result(
			connect(fd, (struct sockaddr *)&address.storage, address.length));
	result = connect_without_blocking(fd, flags, &address);
	/* The try before this one began it; had it failed, this one would say why. */
	if (guest_thread(g)->tries_again && result == -EISCONN)
		return 0;
	if (result == -EINPROGRESS || (guest_thread(g)->tries_again && result == -EALREADY))
		return file_wait(g, fd, POLLOUT);
	/* A Unix listener with a full queue: nothing tells when there is room. */
	return result == -EAGAIN ? file_wait_a_little(g) : result;
}

int64_t call_shutdown(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(shutdown(fd, (int)a[1]));
}

/* ---- options: those whose values are plain data. Others hold pointers (SO_ATTACH_FILTER), which
 * would be pointers into the VMM ---- */

const struct socket_option socket_options[] = {
	{ SOL_SOCKET, SO_ERROR, false },
	{ SOL_SOCKET, SO_TYPE, false },
	{ SOL_SOCKET, SO_DOMAIN, false },
	{ SOL_SOCKET, SO_PROTOCOL, false },
	{ SOL_SOCKET, SO_ACCEPTCONN, false },
	{ SOL_SOCKET, SO_PEERCRED, false },
	{ SOL_SOCKET, SO_REUSEADDR, true },
	{ SOL_SOCKET, SO_REUSEPORT, true },
	{ SOL_SOCKET, SO_KEEPALIVE, true },
	{ SOL_SOCKET, SO_BROADCAST, true },
	{ SOL_SOCKET, SO_OOBINLINE, true },
	{ SOL_SOCKET, SO_LINGER, true },
	{ SOL_SOCKET, SO_SNDBUF, true },
	{ SOL_SOCKET, SO_RCVBUF, true },
	{ SOL_SOCKET, SO_RCVLOWAT, true },
	{ SOL_SOCKET, SO_SNDTIMEO, true },
	{ SOL_SOCKET, SO_RCVTIMEO, true },
	{ SOL_SOCKET, SO_PASSCRED, true },
	{ SOL_SOCKET, SO_TIMESTAMP, true },
	{ SOL_SOCKET, SO_PRIORITY, true },
	{ IPPROTO_TCP, TCP_NODELAY, true },
	{ IPPROTO_TCP, TCP_MAXSEG, true },
	{ IPPROTO_TCP, TCP_CORK, true },
	{ IPPROTO_TCP, TCP_KEEPIDLE, true },
	{ IPPROTO_TCP, TCP_KEEPINTVL, true },
	{ IPPROTO_TCP, TCP_KEEPCNT, true },
	{ IPPROTO_TCP, TCP_QUICKACK, true },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, true },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, true },
	{ IPPROTO_TCP, TCP_SYNCNT, true },
	{ IPPROTO_TCP, TCP_INFO, false },
	{ IPPROTO_IP, IP_TOS, true },
	{ IPPROTO_IP, IP_RECVTOS, true },
	{ IPPROTO_IP, IP_RECVTTL, true },
	{ IPPROTO_IP, IP_PKTINFO, true },
	{ IPPROTO_IP, IP_MULTICAST_TTL, true },
	{ IPPROTO_IP, IP_MULTICAST_LOOP, true },
	{ IPPROTO_IP, IP_TTL, true },
	{ IPPROTO_IP, IP_RECVERR, true },
	{ IPPROTO_IPV6, IPV6_V6ONLY, true },
	{ IPPROTO_IPV6, IPV6_RECVERR, true },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, true },
	{ IPPROTO_IPV6, IPV6_MULTICAST_HOPS, true },
	{ IPPROTO_IPV6, IPV6_MULTICAST_LOOP, true },
	{ IPPROTO_IPV6, IPV6_TCLASS, true },
	{ IPPROTO_IPV6, IPV6_RECVTCLASS, true },
	{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, true },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, true },
};

const unsigned socket_options_count = COUNT(socket_options);

enum { OPTION_SIZE = 256 }; /* struct tcp_info is the longest */

static const struct socket_option *find_option(uint64_t level, uint64_t name)
{
	for (size_t i = 0; i < COUNT(socket_options); i++)
		if (socket_options[i].level == (int)level && socket_options[i].name == (int)name)
			return &socket_options[i];
	return NULL;
}

int64_t call_setsockopt(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	const struct socket_option *option = find_option(a[1], a[2]);
	char value[OPTION_SIZE];

	if (fd < 0)
		return fd;
	if (!option || !option->may_set)
		return -ENOPROTOOPT;
	if ((uint32_t)a[4] > sizeof(value))
		return -EINVAL;
	if (mem_read(&g->mem, value, a[3], (uint32_t)a[4]))
		return -EFAULT;
	return host_result(setsockopt(fd, option->level, option->name, value, (socklen_t)a[4]));
}

int64_t call_getsockopt(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	const struct socket_option *option = find_option(a[1], a[2]);
	char value[OPTION_SIZE];
	int32_t room;
	socklen_t length;

	if (fd < 0)
		return fd;
	if (!option)
		return -ENOPROTOOPT;
	if (mem_read(&g->mem, &room, a[4], sizeof(room)))
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	length = room < OPTION_SIZE ? (socklen_t)room : OPTION_SIZE;
	if (getsockopt(fd, option->level, option->name, value, &length))
		return -errno;
	if (mem_write(&g->mem, a[3], value, length))
		return -EFAULT;
	return mem_write(&g->mem, a[4], &length, sizeof(length));
}
