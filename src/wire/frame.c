#include "wire/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint8_t *room(struct frame_out *f, size_t len)
{
	uint8_t *at;

	if (f->overflow || len > sizeof(f->bytes) - f->len) {
		f->overflow = true;
		return NULL;
	}
	at = f->bytes + f->len;
	f->len += len;
	return at;
}

void frame_begin(struct frame_out *f, uint8_t type)
{
	f->len = 0;
	f->overflow = false;
	frame_put_u8(f, type);
}

static void put_le(struct frame_out *f, uint64_t value, size_t bytes)
{
	uint8_t *at = room(f, bytes);

	for (size_t i = 0; at && i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

void frame_put_u8(struct frame_out *f, uint8_t value)
{
	put_le(f, value, 1);
}

void frame_put_u32(struct frame_out *f, uint32_t value)
{
	put_le(f, value, 4);
}

void frame_put_u64(struct frame_out *f, uint64_t value)
{
	put_le(f, value, 8);
}

void frame_put_bytes(struct frame_out *f, const void *data, size_t len)
{
	uint8_t *at;

	frame_put_u32(f, len > FRAME_MAX ? FRAME_MAX : (uint32_t)len);
	at = room(f, len);
	if (at && len)
		memcpy(at, data, len);
}

void frame_put_string(struct frame_out *f, const char *text)
{
	frame_put_bytes(f, text, strlen(text) + 1);
}

static const uint8_t *take(struct frame_in *f, size_t len)
{
	const uint8_t *at = f->at;

	if (f->bad || len > (size_t)(f->end - f->at)) {
		f->bad = true;
		return NULL;
	}
	f->at += len;
	return at;
}

static uint64_t get_le(struct frame_in *f, size_t bytes)
{
	const uint8_t *at = take(f, bytes);
	uint64_t value = 0;

	for (size_t i = 0; at && i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint8_t frame_get_u8(struct frame_in *f)
{
	return (uint8_t)get_le(f, 1);
}

uint32_t frame_get_u32(struct frame_in *f)
{
	return (uint32_t)get_le(f, 4);
}

uint64_t frame_get_u64(struct frame_in *f)
{
	return get_le(f, 8);
}

const uint8_t *frame_get_bytes(struct frame_in *f, size_t *ret_len)
{
	uint32_t len = frame_get_u32(f);
	const uint8_t *at = take(f, len);

	*ret_len = at ? len : 0;
	return at;
}

const char *frame_get_string(struct frame_in *f)
{
	size_t len;
	const uint8_t *at = frame_get_bytes(f, &len);

	/* The only NUL must be the last byte: a string that looks shorter than it is has been used
	 * to slip past checks before. */
	if (!at || len == 0 || memchr(at, '\0', len) != at + len - 1) {
		f->bad = true;
		return "";
	}
	return (const char *)at;
}

bool frame_in_done(const struct frame_in *f)
{
	return !f->bad && f->at == f->end;
}

int frame_send(int sock, const struct frame_out *f, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = (void *)(uintptr_t)f->bytes, .iov_len = f->len };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (f->overflow) {
		errno = EMSGSIZE;
		return -1;
	}
	if (fd >= 0) {
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
	}
	do
		n = sendmsg(sock, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

static int fd_of(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
		header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(header), sizeof(int));
	return fd;
}

int frame_recv(int sock, uint8_t *buffer, int flags, uint8_t *ret_type, struct frame_in *ret_in,
	int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = buffer, .iov_len = FRAME_MAX };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (ret_fd) {
		*ret_fd = -1;
		message.msg_control = control.bytes;
		/* Not CMSG_SPACE: its padding would hold a second one. */
		message.msg_controllen = CMSG_LEN(sizeof(int));
	}
	do
		n = recvmsg(sock, &message, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	if (ret_fd)
		*ret_fd = fd_of(&message);
	if (n == 0 && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && (!ret_fd || *ret_fd < 0))
		return 0;
	if (n == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		if (ret_fd && *ret_fd >= 0) {
			close(*ret_fd);
			*ret_fd = -1;
		}
		errno = EBADMSG;
		return -1;
	}
	*ret_type = buffer[0];
	*ret_in = (struct frame_in){ .at = buffer + 1, .end = buffer + n };
	return 1;
}
