#include "http_peer.h"

#include "testing.h"

#include "base/clock.h"
#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	PATIENCE_US = 30000000, /* nothing takes so long, unless it is broken */
	LARGE = 64 * 1024 * 1024,
	LONG_FILE = 8 * 1024 * 1024,
};

static int make_file(size_t size)
{
	auto_free char *text = xalloc(size + 1);
	int fd = memfd_create("file", MFD_CLOEXEC);

	for (size_t i = 0; i < size; i++)
		text[i] = (char)('a' + i % 26);
	assert_true(fd >= 0 && write(fd, text, size) == (ssize_t)size);
	return fd;
}

static bool asks(struct http_exchange *x, const char *path)
{
	return strcmp(http_path(x), path) == 0;
}

static void say(struct http_exchange *x, const char *text)
{
	http_reply(x, 200, "text/plain", text, strlen(text));
}

static void on_headers(void *context, struct http_exchange *x)
{
	struct served *s = context;

	buf_addf(&s->seen, "H:%s ", http_path(x));
	http_set_data(x, s);
	if (asks(x, "/limit"))
		http_limit_body(x, 10);
	if (asks(x, "/refuse")) {
		http_set_header(x, "WWW-Authenticate", "Bearer");
		http_reply(x, 401, "text/plain", "no key", 6);
	}
	if (asks(x, "/in"))
		http_want_body_in(x, s->file_fd, 1000);
	if (asks(x, "/part"))
		http_want_part(x, "file", s->file_fd, 1000);
}

static void tell_part(struct http_exchange *x)
{
	auto_buf struct buf text = { 0 };
	const char *filename;
	uint64_t size;

	if (http_part(x, &filename, &size))
		buf_addf(&text, "part '%s' %llu", filename ? filename : "(none)",
			(unsigned long long)size);
	else
		buf_add_str(&text, "no part");
	say(x, text.data);
}

static void tell_headers(struct http_exchange *x)
{
	auto_buf struct buf text = { 0 };
	const char *value = http_header(x, "x-a");

	buf_addf(&text, "%u %s %s", http_header_count(x, "x-A"), value ? value : "(none)",
		http_method(x));
	say(x, text.data);
}

static void on_request(void *context, struct http_exchange *x)
{
	struct served *s = context;
	const char *value = http_query(x, "a");
	size_t len;
	const char *body = http_body(x, &len);

	assert_ptr_equal(http_data(x), s);
	buf_addf(&s->seen, "R:%s ", http_path(x));
	if (asks(x, "/later")) {
		s->waiting = x;
	} else if (asks(x, "/stream")) {
		s->waiting = x;
		http_stream(x, 200,
			http_query(x, "type") ? http_query(x, "type") : "text/event-stream");
	} else if (asks(x, "/file")) {
		http_reply_file(x, 200, "application/x", make_file(100000), 100000);
	} else if (asks(x, "/longfile")) {
		http_reply_file(x, 200, "application/x", make_file(LONG_FILE), LONG_FILE);
	} else if (asks(x, "/short")) {
		http_reply_file(x, 200, "application/x", make_file(100000), 100001);
	} else if (asks(x, "/large")) {
		http_reply_taken(x, 200, "application/x", xalloc(LARGE), LARGE);
	} else if (asks(x, "/nothing")) {
		http_reply(x, 204, NULL, "", 0);
	} else if (asks(x, "/empty")) {
		http_reply_file(x, 200, "application/x", make_file(0), 0);
	} else if (asks(x, "/echo") || asks(x, "/limit")) {
		http_reply(x, 200, "text/plain", body, len);
	} else if (asks(x, "/taken")) {
		http_reply_taken(x, 201, NULL, xstrdup("taken"), 5);
	} else if (asks(x, "/part")) {
		tell_part(x);
	} else if (asks(x, "/query")) {
		say(x, value ? value : "(none)");
	} else if (asks(x, "/headers")) {
		tell_headers(x);
	} else if (asks(x, "/in")) {
		say(x, http_body_size(x) == 1000 ? "1000" : "other");
	} else {
		say(x, "hello");
	}
}

static void on_refused(void *context, struct http_exchange *x, unsigned status, const char *why)
{
	struct served *s = context;

	buf_addf(&s->seen, "X:%u ", status);
	assert_non_null(why);
	if (s->answers_refusals) {
		http_set_header(x, "X-Refused", "yes");
		http_reply(x, status, "text/plain", "in my own words", 15);
	}
}

static void on_end(void *context, struct http_exchange *x, bool complete)
{
	struct served *s = context;

	buf_addf(&s->seen, "E:%d ", complete);
	if (s->waiting == x)
		s->waiting = NULL;
	http_end(x); /* too late for anything, but no harm */
	http_abort(x);
}

static void on_room(void *context, struct http_exchange *x)
{
	struct served *s = context;

	assert_true(http_queued(x) < HTTP_QUEUE_MAX / 2);
	buf_add_str(&s->seen, "M ");
}

static int listen_local(struct served *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(s->path, sizeof(s->path), "/tmp/hotcell-test-http-%d", getpid());
	unlink(s->path);
	strcpy(address.sun_path, s->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int listen_tcp(struct served *s)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	s->port = ntohs(address.sin_port);
	return fd;
}

void served_open(struct served *s, struct http_options options)
{
	struct err e;
	int fd = options.is_local ? listen_local(s) : listen_tcp(s);

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(listen(fd, 1024), 0);
	s->is_local = options.is_local;
	s->file_fd = make_file(0);
	options.listen_fd = fd;
	options.handlers = (struct http_handlers){ .on_headers = on_headers,
		.on_request = on_request,
		.on_refused = on_refused,
		.on_end = on_end,
		.on_room = on_room,
		.context = s };
	buf_add_str(&s->seen, " ");
	if (http_open(&options, &s->http, &e) < 0)
		fail_msg("%s", e.text);
}

void served_close(struct served *s)
{
	http_close(s->http);
	s->http = NULL;
	if (s->file_fd >= 0)
		close(take_fd(&s->file_fd));
	buf_free(&s->seen);
	if (s->is_local)
		unlink(s->path);
}

static void turn_with(struct served *s, int fd, short events, int ms)
{
	struct pollfd fds[] = { { .fd = http_fd(s->http), .events = POLLIN },
		{ .fd = fd, .events = events } };
	int due = http_timeout_ms(s->http);

	if (due >= 0 && due < ms)
		ms = due;
	poll(fds, fd < 0 ? 1 : 2, ms);
	http_run(s->http);
}

void served_turn(struct served *s, int ms)
{
	turn_with(s, -1, 0, ms);
}

void served_wait(struct served *s, const char *word)
{
	int64_t end = clock_now_us() + PATIENCE_US;

	while (!strstr(s->seen.data, word)) {
		if (clock_now_us() > end)
			fail_msg("no '%s' in '%s'", word, s->seen.data);
		served_turn(s, 100);
	}
}

void peer_open(struct peer *p, struct served *s)
{
	struct sockaddr_in tcp = { .sin_family = AF_INET,
		.sin_port = htons(s->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un local = { .sun_family = AF_UNIX };

	*p = (struct peer){ .s = s,
		.fd = socket(s->is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	strcpy(local.sun_path, s->path);
	assert_true(p->fd >= 0);
	assert_int_equal(
		connect(p->fd, s->is_local ? (struct sockaddr *)&local : (struct sockaddr *)&tcp,
			s->is_local ? sizeof(local) : sizeof(tcp)),
		0);
	buf_add_str(&p->in, "");
}

void peer_close(struct peer *p)
{
	if (p->fd >= 0)
		close(take_fd(&p->fd));
	buf_free(&p->in);
}

static void read_some(struct peer *p)
{
	char *into = buf_reserve(&p->in, 65536);
	ssize_t got = recv(p->fd, into, 65535, MSG_DONTWAIT);

	if (got > 0)
		p->in.len += (size_t)got;
	else if (got == 0 || errno != EAGAIN)
		p->ended = true;
	p->in.data[p->in.len] = '\0';
}

bool peer_write(struct peer *p, const void *data, size_t len)
{
	const char *at = data;
	int64_t end = clock_now_us() + PATIENCE_US;

	while (len) {
		ssize_t sent = send(p->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return false;
		if (sent > 0) {
			at += sent;
			len -= (size_t)sent;
		}
		turn_with(p->s, p->fd, POLLOUT, 100);
		if (clock_now_us() > end)
			fail_msg("the server does not read");
	}
	return true;
}

void peer_say(struct peer *p, const char *text)
{
	assert_true(peer_write(p, text, strlen(text)));
}

static void wait_until(struct peer *p, const char *text)
{
	int64_t end = clock_now_us() + PATIENCE_US;

	for (;;) {
		read_some(p);
		if (text && memmem(p->in.data, p->in.len, text, strlen(text)))
			return;
		if (p->ended) {
			if (text)
				fail_msg("ended without '%s' after '%s'", text, p->in.data);
			return;
		}
		if (clock_now_us() > end)
			fail_msg("no '%s' after '%s'", text ? text : "end", p->in.data);
		turn_with(p->s, p->fd, POLLIN, 100);
	}
}

void peer_wait(struct peer *p, const char *text)
{
	wait_until(p, text);
}

void peer_wait_end(struct peer *p)
{
	wait_until(p, NULL);
}

const char *peer_ask_bytes(struct served *s, const void *data, size_t len)
{
	static char *last;
	struct peer p;

	peer_open(&p, s);
	peer_write(&p, data, len);
	peer_wait_end(&p);
	free(last);
	last = buf_take(&p.in);
	peer_close(&p);
	return last;
}

const char *peer_ask(struct served *s, const char *text)
{
	return peer_ask_bytes(s, text, strlen(text));
}
