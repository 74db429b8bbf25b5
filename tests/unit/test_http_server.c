#include "http_peer.h"
#include "testing.h"

#include "base/clock.h"
#include "http/inner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASK  "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"
#define LAST "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

static void peers_of_a_unix_socket_are_known(void **state)
{
	struct served s = { 0 };
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ .is_local = true });
	peer_open(&p, &s);
	peer_say(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "R:/later");
	assert_true(http_is_local(s.waiting));
	assert_int_equal(http_peer_uid(s.waiting), getuid());
	peer_close(&p);
	served_close(&s);
}

static void peers_of_tcp_are_nobody(void **state)
{
	struct served s = { 0 };
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	peer_open(&p, &s);
	peer_say(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "R:/later");
	assert_false(http_is_local(s.waiting));
	assert_int_equal(http_peer_uid(s.waiting), (uid_t)-1);
	peer_close(&p);
	served_close(&s);
}

static void over_the_limit_connections_are_turned_away_and_others_go_on(void **state)
{
	struct served s = { 0 };
	struct peer p[4];

	(void)state;
	served_open(&s, (struct http_options){ .connections_max = 3 });
	for (int i = 0; i < 3; i++) {
		peer_open(&p[i], &s);
		peer_say(&p[i], ASK);
		peer_wait(&p[i], "\r\n\r\nhello");
	}
	peer_open(&p[3], &s);
	peer_wait_end(&p[3]);
	assert_has(p[3].in.data, "HTTP/1.1 503 ");
	assert_has(p[3].in.data, "Retry-After: 1\r\n");
	peer_close(&p[3]);
	for (int i = 0; i < 3; i++) {
		buf_clear(&p[i].in);
		peer_say(&p[i], ASK);
		peer_wait(&p[i], "\r\n\r\nhello");
	}
	peer_close(&p[0]);
	while (http_connections(s.http) == 3)
		served_turn(&s, 100);
	assert_has(peer_ask(&s, LAST), "\r\n\r\nhello");
	peer_close(&p[1]);
	peer_close(&p[2]);
	served_close(&s);
}

/* Uses up all descriptors, so that the server cannot accept: it must neither hang nor turn in circles. */
static void without_descriptors_connections_are_turned_away(void **state)
{
	struct served s = { 0 };
	struct rlimit before;
	struct rlimit few;
	struct peer p;
	struct peer q;
	unsigned turns = 0;
	int taken[512];
	int count = 0;

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	getrlimit(RLIMIT_NOFILE, &before);
	few = (struct rlimit){ .rlim_cur = 256, .rlim_max = before.rlim_max };
	setrlimit(RLIMIT_NOFILE, &few);
	peer_open(&p, &s);
	peer_open(&q, &s);
	while ((taken[count] = dup(0)) >= 0)
		count++;
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 503 ");
	peer_wait_end(&q);
	/* nothing left to do: no turn is due before the time is up */
	for (int64_t end = clock_now_us() + 100000; clock_now_us() < end; turns++)
		served_turn(&s, 1000);
	assert_true(turns < 5);
	while (count)
		close(taken[--count]);
	assert_has(peer_ask(&s, LAST), "\r\n\r\nhello");
	setrlimit(RLIMIT_NOFILE, &before);
	peer_close(&p);
	peer_close(&q);
	served_close(&s);
}

static void connections_that_say_nothing_are_closed(void **state)
{
	struct served s = { 0 };
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1 });
	peer_open(&p, &s);
	peer_wait_end(&p);
	assert_string_equal(p.in.data, "");
	peer_close(&p);
	/* nor after a request */
	peer_open(&p, &s);
	peer_say(&p, ASK);
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nhello");
	peer_close(&p);
	served_close(&s);
}

/* A byte now and then keeps a connection from being silent, not from being too slow. */
static void drip(struct served *s, const char *head, const char *drops)
{
	struct peer p;

	peer_open(&p, s);
	peer_say(&p, head);
	for (int i = 0; !p.ended; i++) {
		char nothing[1000];

		assert_true(i < 600);
		send(p.fd, drops + i % (int)strlen(drops), 1, MSG_NOSIGNAL);
		for (int64_t end = clock_now_us() + 100000; clock_now_us() < end;)
			served_turn(s, 20);
		/* as the server has closed it, or as it was reset for what came after that */
		p.ended = recv(p.fd, nothing, sizeof(nothing), MSG_DONTWAIT | MSG_PEEK) == 0 ||
			  http_connections(s->http) == 0;
	}
	peer_wait_end(&p);
	if (*head)
		assert_has(p.in.data, "HTTP/1.1 408 ");
	else
		assert_string_equal(p.in.data, "");
	peer_close(&p);
}

static void heads_and_bodies_that_come_too_slowly_are_ended(void **state)
{
	struct served s = { 0 };

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1, .request_s = 1 });
	drip(&s, "GET /hello HTTP/1.1\r\nHost: h\r\nX: ", "x");
	drip(&s, "", "\r\n");
	assert_string_equal(s.seen.data, " X:408 E:1 ");
	buf_clear(&s.seen);
	drip(&s, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n", "x");
	assert_string_equal(s.seen.data, "H:/echo X:408 E:1 ");
	served_close(&s);
}

static void a_body_that_keeps_coming_may_take_its_time(void **state)
{
	struct served s = { 0 };
	static char block[2048];
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1, .request_s = 1 });
	peer_open(&p, &s);
	peer_say(&p,
		"POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 61440\r\n\r\n");
	for (int i = 0; i < 30; i++) { /* 20 KiB a second, for three seconds */
		assert_true(peer_write(&p, block, sizeof(block)));
		for (int64_t end = clock_now_us() + 100000; clock_now_us() < end;)
			served_turn(&s, 20);
	}
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 200 OK\r\n");
	peer_close(&p);
	served_close(&s);
}

/* For longer than one that takes nothing has; in the end it must have all. */
static void ask_and_take_slowly(struct served *s, const char *text)
{
	static char some[256 * 1024];
	struct peer p;

	peer_open(&p, s);
	peer_say(&p, text);
	for (int64_t end = clock_now_us() + 2500000; clock_now_us() < end;) {
		for (int64_t next = clock_now_us() + 100000; clock_now_us() < next;)
			served_turn(s, 20);
		assert_true(recv(p.fd, some, sizeof(some), MSG_DONTWAIT) > 0);
	}
	peer_wait_end(&p);
	assert_has(s->seen.data, "E:1");
	peer_close(&p);
}

static void a_client_that_takes_nothing_of_its_answer_is_given_up(void **state)
{
	struct served s = { 0 };
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1 });
	peer_open(&p, &s);
	peer_say(&p, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "E:0");
	assert_int_equal(http_connections(s.http), 0);
	peer_close(&p);
	/* one that takes its time is not */
	ask_and_take_slowly(&s, "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	served_close(&s);
}

/* Its answers are more than all together may hold: the one who takes nothing makes room. */
static void of_many_readers_the_slowest_makes_room(void **state)
{
	struct served s = { 0 };
	struct peer slow;
	struct peer quick;

	(void)state;
	served_open(&s, (struct http_options){ .answers_max = 1 << 20 });
	peer_open(&slow, &s);
	peer_say(&slow, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "R:/large");
	for (int i = 0; i < 5; i++)
		served_turn(&s, 20);
	assert_hasnt(s.seen.data, "E:"); /* while there is no other, it may */
	peer_open(&quick, &s);
	peer_say(&quick, "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	peer_wait_end(&quick);
	served_wait(&s, "E:1");
	assert_has(s.seen.data, "E:0");
	assert_true(quick.in.len > 64 << 20);
	assert_int_equal(http_connections(s.http), 0);
	peer_close(&slow);
	peer_close(&quick);
	served_close(&s);
}

/* Each time the socket is full as much of a block is left as the time before: all of it. */
static void a_client_that_takes_its_time_gets_all_of_a_file(void **state)
{
	struct served s = { 0 };

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1, .is_local = true });
	ask_and_take_slowly(&s, "GET /longfile HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	served_close(&s);
}

static void waiting_for_an_answer_has_no_deadline(void **state)
{
	struct served s = { 0 };
	struct peer p;

	(void)state;
	served_open(&s, (struct http_options){ .idle_s = 1, .request_s = 1 });
	peer_open(&p, &s);
	peer_say(&p, "GET /later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	for (int64_t end = clock_now_us() + 3000000; clock_now_us() < end;)
		served_turn(&s, 100);
	http_reply(s.waiting, 200, NULL, "late", 4);
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nlate");
	peer_close(&p);
	served_close(&s);
}

static void bodies_share_one_limit(void **state)
{
	struct served s = { 0 };
	static char block[8000];
	struct peer p[3];

	(void)state;
	served_open(&s, (struct http_options){ .body_max = 10000, .bodies_max = 20000 });
	for (int i = 0; i < 3; i++) {
		peer_open(&p[i], &s);
		peer_say(&p[i], "POST /later HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n");
		peer_write(&p[i], block, sizeof(block));
	}
	peer_wait_end(&p[2]);
	assert_has(p[2].in.data, "HTTP/1.1 503 ");
	peer_close(&p[0]);
	served_wait(&s, "E:1 E:0");
	buf_clear(&s.seen);
	peer_close(&p[2]);
	peer_open(&p[2], &s);
	peer_say(&p[2], "POST /later HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n");
	peer_write(&p[2], block, sizeof(block));
	served_wait(&s, "R:/later");
	peer_close(&p[1]);
	peer_close(&p[2]);
	served_close(&s);
}

/* `again` ends in the middle of what its next copy goes on with, so that something is always left for later. */
static void send_for_long(struct served *s, const char *first, const char *again)
{
	auto_buf struct buf block = { 0 };
	struct peer p;

	while (block.len < 32768)
		buf_add_str(&block, again);
	peer_open(&p, s);
	peer_say(&p, first);
	for (int i = 0; i < 100; i++) {
		char nothing[65536];

		assert_true(peer_write(&p, block.data, block.len));
		while (recv(p.fd, nothing, sizeof(nothing), MSG_DONTWAIT) > 0)
			served_turn(s, 0);
		assert_non_null(s->http->conns);
		assert_true(s->http->conns->in.cap <= 4UL * BLOCK_BYTES);
	}
	peer_close(&p);
	while (http_connections(s->http))
		served_turn(s, 100);
}

static void what_was_served_is_not_kept(void **state)
{
	struct served s = { 0 };

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	send_for_long(&s, "GE", "T /hello HTTP/1.1\r\nHost: h\r\n\r\nGE");
	send_for_long(&s, "\r", "\n\r");
	served_close(&s);
}

static unsigned count_words(const struct served *s, const char *word)
{
	unsigned count = 0;

	for (const char *at = s->seen.data; (at = strstr(at, word)); at++)
		count++;
	return count;
}

static void whoever_asks_for_a_lot_at_once_lets_others_have_their_turn(void **state)
{
	static const char other[] = "GET /other HTTP/1.1\r\nHost: h\r\n\r\n";
	auto_buf struct buf many = { 0 };
	struct served s = { 0 };
	struct peer p;
	struct peer q;

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	peer_open(&p, &s);
	peer_open(&q, &s);
	for (int i = 0; i < 500; i++)
		buf_add_str(&many, ASK);
	assert_int_equal(send(p.fd, many.data, many.len, 0), many.len);
	assert_true(send(q.fd, other, strlen(other), 0) > 0);
	served_wait(&s, "R:/other");
	/* the one that came first has not had all of its answers by then, but gets them */
	assert_true(count_words(&s, "R:/hello ") < 250);
	while (count_words(&s, "E:1 ") < 501)
		served_turn(&s, 100);
	peer_close(&p);
	peer_close(&q);
	served_close(&s);
}

static void when_it_stops_listening_what_has_begun_goes_on(void **state)
{
	struct served s = { 0 };
	struct peer p;
	struct peer idle;

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	peer_open(&idle, &s);
	peer_say(&idle, ASK);
	peer_wait(&idle, "\r\n\r\nhello");
	buf_clear(&s.seen);
	peer_open(&p, &s);
	peer_say(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "R:/later");
	http_stop_listening(s.http);
	assert_int_equal(http_exchanges(s.http), 1);
	http_reply(s.waiting, 200, NULL, "done", 4);
	peer_wait_end(&p);
	assert_has(p.in.data, "Connection: close\r\n");
	assert_has(p.in.data, "\r\n\r\ndone");
	buf_clear(&idle.in);
	peer_say(&idle, ASK);
	peer_wait_end(&idle);
	assert_has(idle.in.data, "Connection: close\r\n");
	peer_close(&p);
	peer_close(&idle);
	served_close(&s);
}

static void closing_ends_every_exchange_once(void **state)
{
	static const char *const asked[] = { "GET /later HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhel", "GET /hel", "" };
	struct served s = { 0 };
	struct peer p[5];
	unsigned before = count_open_fds();

	(void)state;
	served_open(&s, (struct http_options){ 0 });
	for (int i = 0; i < 5; i++) {
		peer_open(&p[i], &s);
		peer_say(&p[i], asked[i]);
	}
	while (http_connections(s.http) < 5 || !strstr(s.seen.data, "H:/echo"))
		served_turn(&s, 100);
	http_close(s.http);
	s.http = NULL;
	assert_int_equal(count_words(&s, "E:0"), 3);
	for (int i = 0; i < 5; i++)
		peer_close(&p[i]);
	served_close(&s);
	assert_int_equal(count_open_fds(), before);
}

static void ten_thousand_connections_may_be_idle(void **state)
{
	enum { MANY = 10000 };
	struct rlimit limit;
	struct served s = { 0 };
	struct peer *p = calloc(MANY, sizeof(*p));
	unsigned count = MANY;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < 2 * MANY + 100)
		count = (unsigned)(limit.rlim_max - 100) / 2; /* as many as there may be here */
	served_open(&s, (struct http_options){ .connections_max = count });
	for (unsigned i = 0; i < count; i++) {
		peer_open(&p[i], &s);
		served_turn(&s, 0);
	}
	while (http_connections(s.http) < count)
		served_turn(&s, 100);
	for (unsigned i = 0; i < count; i += count / 10) {
		peer_say(&p[i], ASK);
		peer_wait(&p[i], "\r\n\r\nhello");
	}
	assert_has(peer_ask(&s, ASK), "HTTP/1.1 503 ");
	for (unsigned i = 0; i < count; i++)
		peer_close(&p[i]);
	while (http_connections(s.http))
		served_turn(&s, 100);
	assert_has(peer_ask(&s, LAST), "\r\n\r\nhello");
	served_close(&s);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(peers_of_a_unix_socket_are_known),
		TEST(peers_of_tcp_are_nobody),
		TEST(over_the_limit_connections_are_turned_away_and_others_go_on),
		TEST(without_descriptors_connections_are_turned_away),
		TEST(connections_that_say_nothing_are_closed),
		TEST(heads_and_bodies_that_come_too_slowly_are_ended),
		TEST(a_body_that_keeps_coming_may_take_its_time),
		TEST(a_client_that_takes_nothing_of_its_answer_is_given_up),
		TEST(of_many_readers_the_slowest_makes_room),
		TEST(a_client_that_takes_its_time_gets_all_of_a_file),
		TEST(waiting_for_an_answer_has_no_deadline),
		TEST(bodies_share_one_limit),
		TEST(what_was_served_is_not_kept),
		TEST(whoever_asks_for_a_lot_at_once_lets_others_have_their_turn),
		TEST(when_it_stops_listening_what_has_begun_goes_on),
		TEST(closing_ends_every_exchange_once),
		TEST(ten_thousand_connections_may_be_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
