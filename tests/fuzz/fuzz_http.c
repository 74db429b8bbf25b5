/* HTTP: bytes on a connection, as a hostile client sends them. The first byte says how they are cut; a handler does
 * whatever the path asks for. Besides what the sanitizers see: each exchange that was begun ends exactly once, what
 * handlers are told is well-formed, and nothing is left behind. */
#include "fuzz.h"

#include "http/inner.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EXCHANGES_MAX = 1024 };

static struct http *server;
static struct http_exchange *waiting[EXCHANGES_MAX];
static unsigned waiting_count;
static unsigned begun;
static int file_fd = -1;

static bool is_new(const struct http_exchange *x)
{
	return http_data(x) == NULL;
}

static void begin(struct http_exchange *x)
{
	if (!is_new(x))
		return;
	http_set_data(x, &begun);
	begun++;
}

static void check_request(struct http_exchange *x)
{
	struct buf decoded = { 0 };
	const char *path = http_path(x);

	CLAIM(path[0] == '/' || strcmp(path, "*") == 0);
	CLAIM(!strpbrk(path, " ?#\r\n\t"));
	if (http_decode(path, strlen(path), &decoded))
		CLAIM(strlen(decoded.data) == decoded.len);
	buf_free(&decoded);
	CLAIM(http_header_count(x, "Content-Length") + http_header_count(x, "Transfer-Encoding") <=
		1);
	CLAIM(http_header_count(x, "Host") <= 1);
	http_query(x, "a");
}

static void on_headers(void *context, struct http_exchange *x)
{
	const char *path = http_path(x);

	(void)context;
	CLAIM(is_new(x));
	begin(x);
	check_request(x);
	CLAIM(ftruncate(file_fd, 0) == 0 && lseek(file_fd, 0, SEEK_SET) == 0);
	if (path[1] == 'p')
		http_want_part(x, "f", file_fd, 20);
	else if (path[1] == 'i')
		http_want_body_in(x, file_fd, 20);
	else if (path[1] == 'l')
		http_limit_body(x, 20);
	else if (path[1] == 'r')
		http_reply(x, 401, "text/plain", "no", 2);
}

static void on_request(void *context, struct http_exchange *x)
{
	const char *path = http_path(x);
	const char *filename;
	uint64_t size;
	size_t len;
	const char *body = http_body(x, &len);

	(void)context;
	CLAIM(!http_is_answered(x));
	CLAIM(body[len] == '\0');
	if (path[1] == 'l')
		CLAIM(len <= 20);
	if (path[1] == 'p' && http_part(x, &filename, &size)) {
		CLAIM(size <= 20 && lseek(file_fd, 0, SEEK_END) == (off_t)size);
		CLAIM(!filename || strlen(filename) <= FORM_HEADERS_MAX);
	}
	if (path[1] == 'w' || path[1] == 's') {
		CLAIM(waiting_count < EXCHANGES_MAX);
		waiting[waiting_count++] = x;
		if (path[1] == 's')
			http_stream(x, 200, "text/event-stream");
		return;
	}
	http_reply(x, 200, "text/plain", body, len);
}

static void on_refused(void *context, struct http_exchange *x, unsigned status, const char *why)
{
	(void)context, (void)why;
	begin(x);
	CLAIM(status >= 400 && status < 600);
	if (http_path(x)[0] == 'o')
		http_reply(x, status, "text/plain", "other words", 11);
}

static void on_end(void *context, struct http_exchange *x, bool complete)
{
	(void)context, (void)complete;
	CLAIM(!is_new(x) && begun > 0);
	begun--;
	for (unsigned i = 0; i < waiting_count; i++) {
		if (waiting[i] == x)
			waiting[i--] = waiting[--waiting_count];
	}
}

static void answer_all(void)
{
	for (unsigned i = 0; i < waiting_count; i++) {
		struct http_exchange *x = waiting[i];

		if (http_is_answered(x)) {
			http_send(x, "data", 4);
			http_end(x);
		} else {
			http_reply(x, 200, "text/plain", "late", 4);
		}
	}
}

static void start(void)
{
	struct http_options options = { .listen_fd = -1,
		.is_local = true,
		.body_max = 64,
		.handlers = { .on_headers = on_headers,
			.on_request = on_request,
			.on_refused = on_refused,
			.on_end = on_end } };
	struct err e;

	file_fd = memfd_create("file", MFD_CLOEXEC);
	CLAIM(file_fd >= 0 && http_open(&options, &server, &e) == 0);
}

static void turn(int client_fd)
{
	char nowhere[65536];

	for (int i = 0; i < 8; i++) {
		http_run(server);
		while (recv(client_fd, nowhere, sizeof(nowhere), MSG_DONTWAIT) > 0)
			;
		if (http_timeout_ms(server) != 0)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? 1 + data[0] % 64 * 16 : 1;
	int pair[2];

	if (!server)
		start();
	if (size == 0 || size > 16384)
		return 0;
	CLAIM(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CLAIM(server_add(server, pair[0]) == 0);
	for (size_t at = 1; at < size && http_connections(server); at += step) {
		size_t len = size - at < step ? size - at : step;

		if (send(pair[1], data + at, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		turn(pair[1]);
		if (data[0] & 0x80)
			answer_all();
	}
	answer_all();
	turn(pair[1]);
	close(pair[1]);
	for (int i = 0; i < 100 && (http_connections(server) || server->linger_count); i++)
		http_run(server);
	CLAIM(http_connections(server) == 0 && server->linger_count == 0);
	CLAIM(begun == 0 && waiting_count == 0 && http_exchanges(server) == 0);
	CLAIM(server->body_bytes == 0);
	return 0;
}
