/* http_load: asks a service the same thing again and again, and tells how long the answers took.
 *
 *	http_load PORT PATH BODY-FILE WANT CONNECTIONS SECONDS RATE
 *	http_load --serve MICROSECONDS
 *
 * The second is a service that does nothing: it computes for so long and answers. It prints its port, and ends with its
 * parent. What takes long there as well, takes long because of the machine.
 *
 * RATE 0 is a closed loop: each connection asks again as soon as it was answered. Else it is an open one: so many
 * requests a second, whoever is free takes the next, and time counts from when a request was due, not from when it
 * could be sent. An answer without the text WANT in it is an error. Prints one line of JSON. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 16, EVENTS = 256 };

struct connection {
	int fd;
	bool is_busy;
	int64_t due_ns;
	char answer[ANSWER_MAX];
	size_t len;
};

static struct {
	char *request;
	size_t request_len;
	const char *want;
	struct connection *connections;
	int count;
	int epoll_fd;
	int64_t *times;
	size_t times_count;
	size_t times_max;
	size_t errors;
} all;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_connection(struct connection *c, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)))
		fail("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	epoll_ctl(all.epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void ask(struct connection *c, int64_t due_ns)
{
	c->is_busy = true;
	c->due_ns = due_ns;
	c->len = 0;
	if (send(c->fd, all.request, all.request_len, MSG_NOSIGNAL) != (ssize_t)all.request_len)
		fail("send");
}

/* Whether all of the answer is there. */
static bool is_whole(struct connection *c)
{
	char *body;
	char *length;

	c->answer[c->len] = '\0';
	body = strstr(c->answer, "\r\n\r\n");
	length = strcasestr(c->answer, "content-length:");
	if (!body || !length)
		return false;
	return c->len >= (size_t)(body + 4 - c->answer) + strtoul(length + 15, NULL, 10);
}

/* True if it is free again. */
static bool take_answer(struct connection *c)
{
	ssize_t n = recv(c->fd, c->answer + c->len, ANSWER_MAX - 1 - c->len, 0);

	if (n <= 0)
		fail(c->is_busy ? "the service hung up while it was asked" : "the service hung up");
	c->len += (size_t)n;
	if (!is_whole(c))
		return false;
	c->is_busy = false;
	if (!strstr(c->answer, all.want)) {
		if (!all.errors++)
			fprintf(stderr, "http_load: %.300s\n", c->answer);
		return true;
	}
	if (all.times_count == all.times_max) {
		all.times_max = all.times_max * 2 + 1024;
		all.times = realloc(all.times, all.times_max * sizeof(*all.times));
	}
	all.times[all.times_count++] = now_ns() - c->due_ns;
	return true;
}

static struct connection *find_free(void)
{
	for (int i = 0; i < all.count; i++)
		if (!all.connections[i].is_busy)
			return &all.connections[i];
	return NULL;
}

static int count_busy(void)
{
	int busy = 0;

	for (int i = 0; i < all.count; i++)
		busy += all.connections[i].is_busy;
	return busy;
}

/* To the nanosecond: a generator that waited in whole milliseconds would be awake all the time, and have a processor
 * for itself. */
static struct timespec time_until(int64_t then_ns)
{
	int64_t left_ns = then_ns - now_ns();

	if (left_ns < 0)
		left_ns = 0;
	return (struct timespec){ .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
}

static void run(double seconds, double rate)
{
	int64_t begin_ns = now_ns();
	int64_t end_ns = begin_ns + (int64_t)(seconds * 1e9);
	int64_t step_ns = rate > 0 ? (int64_t)(1e9 / rate) : 0;
	int64_t due_ns = begin_ns;

	for (int i = 0; !step_ns && i < all.count; i++)
		ask(&all.connections[i], now_ns());
	while (now_ns() < end_ns || count_busy()) {
		struct epoll_event events[EVENTS];
		struct connection *c;
		struct timespec wait = { .tv_nsec = 100000000 };
		int n;

		while (step_ns && due_ns <= now_ns() && due_ns < end_ns && (c = find_free())) {
			ask(c, due_ns);
			due_ns += step_ns;
		}
		if (step_ns && due_ns < end_ns && find_free())
			wait = time_until(due_ns);
		n = epoll_pwait2(all.epoll_fd, events, EVENTS, &wait, NULL);
		for (int i = 0; i < n; i++) {
			c = events[i].data.ptr;
			if (take_answer(c) && !step_ns && now_ns() < end_ns)
				ask(c, now_ns());
		}
	}
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static double part_us(double share)
{
	size_t at = (size_t)(share * (double)all.times_count);

	if (!all.times_count)
		return 0;
	return (double)all.times[at < all.times_count ? at : all.times_count - 1] / 1000;
}

static void build_request(const char *path, const char *body_file)
{
	char body[ANSWER_MAX];
	FILE *file = fopen(body_file, "r");
	size_t len = file ? fread(body, 1, sizeof(body) - 1, file) : 0;

	if (!file)
		fail(body_file);
	fclose(file);
	all.request_len = (size_t)asprintf(&all.request,
		"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n%.*s",
		path, len, (int)len, body);
}

/* ---- the service that does nothing ---- */

static int listen_somewhere(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1024) ||
		getsockname(fd, (struct sockaddr *)&address, &size))
		fail("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

/* How many steps of a loop take a microsecond, in a good moment. */
static volatile unsigned steps;

static void compute(unsigned count)
{
	for (steps = 0; steps < count; steps++)
		;
}

static unsigned steps_in_us(void)
{
	enum { STEPS = 100000, TRIES = 50 };
	int64_t best = INT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		int64_t begun = now_ns();
		int64_t took;

		compute(STEPS);
		took = now_ns() - begun;
		best = took < best ? took : best;
	}
	return (unsigned)(STEPS * 1000LL / best);
}

static void answer(int fd, unsigned count)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n5050";
	char request[ANSWER_MAX];

	if (recv(fd, request, sizeof(request), 0) <= 0) {
		close(fd);
		return;
	}
	compute(count);
	if (send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL) < 0)
		close(fd);
}

static void serve(unsigned us)
{
	unsigned count = us * steps_in_us();
	struct epoll_event event = { .events = EPOLLIN };
	int listener;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listener = listen_somewhere();
	event.data.fd = listener;
	epoll_ctl(all.epoll_fd, EPOLL_CTL_ADD, listener, &event);
	for (;;) {
		if (epoll_wait(all.epoll_fd, &event, 1, -1) != 1)
			continue;
		if (event.data.fd != listener) {
			answer(event.data.fd, count);
			continue;
		}
		event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		event.events = EPOLLIN;
		epoll_ctl(all.epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event);
	}
}

int main(int argc, char **argv)
{
	double seconds;
	int64_t begin_ns;

	all.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (argc == 3 && strcmp(argv[1], "--serve") == 0)
		serve((unsigned)atoi(argv[2]));
	if (argc != 8) {
		fprintf(stderr,
			"usage: http_load PORT PATH BODY-FILE WANT CONNECTIONS SECONDS RATE\n");
		return 2;
	}
	build_request(argv[2], argv[3]);
	all.want = argv[4];
	all.count = atoi(argv[5]);
	all.connections = calloc((size_t)all.count, sizeof(*all.connections));
	for (int i = 0; i < all.count; i++)
		open_connection(&all.connections[i], atoi(argv[1]));
	begin_ns = now_ns();
	run(atof(argv[6]), atof(argv[7]));
	seconds = (double)(now_ns() - begin_ns) / 1e9;
	qsort(all.times, all.times_count, sizeof(*all.times), compare);
	printf("{\"count\": %zu, \"errors\": %zu, \"rate\": %.1f, \"p50_us\": %.1f, \"p90_us\": %.1f, "
	       "\"p99_us\": %.1f, \"max_us\": %.1f}\n",
		all.times_count, all.errors, (double)all.times_count / seconds, part_us(0.5),
		part_us(0.9), part_us(0.99), part_us(1));
	return all.errors ? 1 : 0;
}
