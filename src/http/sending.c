/* sending: answers on their way to the socket, in pieces of up to four parts.
 *
 *	whole        head, body
 *	file         head, block; block; …
 *	stream       head, size, chunk, CRLF; size, chunk, CRLF; …; 0 */
#include "http/inner.h"

#include "base/own.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

enum { SENDS_MAX = 32 }; /* in one turn: then others have theirs */

static void add_part(struct http_exchange *x, const void *data, size_t len)
{
	if (len == 0)
		return;
	x->pieces[x->pieces_count++] =
		(struct iovec){ .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	x->pieces_bytes += len;
}

static void add_text(struct http_exchange *x, const char *text)
{
	add_part(x, text, strlen(text));
}

/* All that waits becomes one chunk; what comes meanwhile goes into the buffer that was sent before. */
static void add_chunk(struct http_exchange *x)
{
	struct buf sent = x->sending;

	x->sending = x->queue;
	if (sent.cap > HTTP_QUEUE_MAX)
		buf_free(&sent);
	else
		buf_clear(&sent);
	x->queue = sent;
	if (x->is_1_0) {
		add_part(x, x->sending.data, x->sending.len);
		return;
	}
	snprintf(x->chunk_line, sizeof(x->chunk_line), "%zx\r\n", x->sending.len);
	add_text(x, x->chunk_line);
	add_part(x, x->sending.data, x->sending.len);
	add_text(x, x->has_ended ? "\r\n0\r\n\r\n" : "\r\n");
}

static void add_of_stream(struct http_exchange *x)
{
	if (x->queue.len)
		add_chunk(x);
	else if (x->has_ended && !x->is_1_0)
		add_text(x, "0\r\n\r\n");
	x->is_sent = x->has_ended;
}

static void add_of_file(struct http_exchange *x)
{
	size_t len = x->file_left < FILE_BLOCK ? (size_t)x->file_left : FILE_BLOCK;
	ssize_t got;

	buf_clear(&x->sending);
	got = pread(x->file_fd, buf_reserve(&x->sending, len), len, (off_t)x->file_at);
	if (got <= 0) { /* shorter than was said: the client must not think that this is all */
		x->is_broken = true;
		return;
	}
	x->file_at += (uint64_t)got;
	x->file_left -= (uint64_t)got;
	x->is_sent = x->file_left == 0;
	add_part(x, x->sending.data, (size_t)got);
}

/* False if there is nothing more, or not now. */
static bool next_piece(struct http_exchange *x)
{
	x->piece = x->pieces_count = 0;
	if (x->is_sent || x->is_broken)
		return false;
	if (!x->has_begun)
		add_part(x, x->answer_head.data, x->answer_head.len);
	x->has_begun = true;
	if (x->has_no_body) {
		x->is_sent = true;
	} else if (x->is_stream) {
		add_of_stream(x);
	} else if (x->file_left) {
		add_of_file(x);
	} else {
		add_part(x, x->sending.data, x->sending.len);
		x->is_sent = true;
	}
	return x->pieces_count && !x->is_broken;
}

static void want_room(struct http_exchange *x)
{
	struct http *h = x->conn->http;

	x->was_full = false;
	if (x->in_rooms || !h->options.handlers.on_room)
		return;
	x->in_rooms = true;
	x->next_room = h->rooms;
	h->rooms = x;
}

static void advance(struct http_exchange *x, size_t sent)
{
	x->pieces_bytes -= sent;
	x->sent_bytes += sent;
	while (sent) {
		struct iovec *part = &x->pieces[x->piece];
		size_t len = sent < part->iov_len ? sent : part->iov_len;

		part->iov_base = (char *)part->iov_base + len;
		part->iov_len -= len;
		sent -= len;
		if (part->iov_len == 0)
			x->piece++;
	}
	if (x->was_full && http_queued(x) < HTTP_QUEUE_MAX / 2)
		want_room(x);
}

enum sending sending_go_on(struct http_exchange *x)
{
	for (int i = 0; i < SENDS_MAX; i++) {
		struct msghdr message = { 0 };
		ssize_t sent;

		if (x->piece == x->pieces_count && !next_piece(x)) {
			if (x->is_broken)
				return SENDING_FAILED;
			return x->is_sent ? SENDING_ALL : SENDING_WAITS;
		}
		message.msg_iov = x->pieces + x->piece;
		message.msg_iovlen = x->pieces_count - x->piece;
		sent = sendmsg(x->conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent >= 0)
			advance(x, (size_t)sent);
		else if (errno == EAGAIN)
			return SENDING_FULL;
		else if (errno != EINTR)
			return SENDING_FAILED;
	}
	return SENDING_MORE;
}
