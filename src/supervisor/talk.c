#include "supervisor/talk.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void talk_send(int to, const char *text, int fd)
{
	struct iovec piece = { (char *)(uintptr_t)text, strlen(text) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = fd < 0 ? NULL : &control,
		.msg_controllen = fd < 0 ? 0 : sizeof(control.room),
	};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	(void)!sendmsg(to, &message, MSG_NOSIGNAL);
}

bool talk_receive(int from, int flags, char *ret_text, size_t size, int *ret_fd)
{
	struct iovec piece = { ret_text, size - 1 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.room),
	};
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC | flags);
	const struct cmsghdr *head;

	*ret_fd = -1;
	if (n <= 0)
		return false;
	ret_text[n] = '\0';
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(head), sizeof(*ret_fd));
	return true;
}
