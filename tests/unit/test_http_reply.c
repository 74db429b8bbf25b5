#include "http_peer.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;

static int open_tcp(void **state)
{
	(void)state;
	s = (struct served){ 0 };
	served_open(&s, (struct http_options){ 0 });
	return 0;
}

static int open_local(void **state)
{
	(void)state;
	s = (struct served){ 0 };
	served_open(&s, (struct http_options){ .is_local = true });
	return 0;
}

static int close_server(void **state)
{
	(void)state;
	served_close(&s);
	return 0;
}

#define TEST_TCP(name)   cmocka_unit_test_setup_teardown(name, open_tcp, close_server)
#define TEST_LOCAL(name) cmocka_unit_test_setup_teardown(name, open_local, close_server)
#define CLOSE            "Host: h\r\nConnection: close\r\n"

static void reply(const char *text)
{
	http_reply(s.waiting, 200, "text/plain", text, strlen(text));
}

static void ask_later(struct peer *p, const char *request)
{
	peer_open(p, &s);
	peer_say(p, request);
	served_wait(&s, "R:/");
	assert_non_null(s.waiting);
}

static void a_connection_serves_one_request_after_the_other(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	for (int i = 0; i < 100; i++) {
		peer_say(&p, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
		peer_wait(&p, "\r\n\r\nhello");
		buf_clear(&p.in);
	}
	assert_int_equal(http_connections(s.http), 1);
	assert_int_equal(http_exchanges(s.http), 0);
	peer_close(&p);
}

static void requests_sent_all_at_once_are_answered_in_order(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	peer_say(&p, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
		     "GET /later HTTP/1.1\r\nHost: h\r\n\r\n"
		     "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nthree");
	served_wait(&s, "R:/later");
	reply("two");
	peer_wait_end(&p);
	assert_true(strstr(p.in.data, "one") < strstr(p.in.data, "two"));
	assert_true(strstr(p.in.data, "two") < strstr(p.in.data, "three"));
	assert_has(s.seen.data, "R:/echo E:1 H:/later R:/later E:1 H:/echo");
	peer_close(&p);
}

/* Reads none of the answers. Returns how many there were, before one found no room in the socket. */
static int ask_without_reading(struct peer *p, int max)
{
	peer_open(p, &s);
	for (int i = 0; i < max; i++) {
		peer_say(p, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
		for (int turns = 0; turns < 3; turns++)
			served_turn(&s, 0);
		if (http_exchanges(s.http))
			return i;
	}
	return max;
}

static void a_body_is_awaited_even_if_there_is_no_room_to_say_so(void **state)
{
	struct peer p;
	int room;

	(void)state;
	room = ask_without_reading(&p, 100000);
	peer_close(&p);
	served_wait(&s, "E:0");
	assert_int_equal(ask_without_reading(&p, room), room);
	peer_say(&p, "POST /echo HTTP/1.1\r\n" CLOSE
		     "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
	served_wait(&s, "H:/echo");
	assert_int_equal(http_exchanges(s.http), 1);
	peer_say(&p, "body");
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nbody");
	peer_close(&p);
}

static void an_answer_may_come_later(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\n" CLOSE "\r\n");
	for (int i = 0; i < 10; i++)
		served_turn(&s, 1);
	assert_int_equal(http_exchanges(s.http), 1);
	assert_true(http_set_header(s.waiting, "X-Y", "z"));
	assert_false(http_set_header(s.waiting, "X-Y", "z\r\nX: y"));
	assert_false(http_set_header(s.waiting, "X Y", "z"));
	reply("at last");
	assert_int_equal(http_timeout_ms(s.http), 0);
	peer_wait_end(&p);
	assert_has(p.in.data, "X-Y: z\r\n");
	assert_has(p.in.data, "\r\n\r\nat last");
	assert_has(s.seen.data, "E:1");
	peer_close(&p);
}

static void a_second_answer_is_none(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\n" CLOSE "\r\n");
	reply("first");
	assert_true(http_is_answered(s.waiting));
	reply("second");
	http_reply_taken(s.waiting, 200, NULL, strdup("third"), 5);
	http_reply_file(s.waiting, 200, NULL, dup(s.file_fd), 5);
	http_stream(s.waiting, 200, NULL);
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nfirst");
	assert_hasnt(p.in.data, "second");
	peer_close(&p);
}

static void files_are_sent(void **state)
{
	const char *got = peer_ask(&s, "GET /file HTTP/1.1\r\n" CLOSE "\r\n");
	const char *body = strstr(got, "\r\n\r\n") + 4;

	(void)state;
	assert_has(got, "Content-Length: 100000\r\n");
	assert_int_equal(strlen(body), 100000);
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(body[i], 'a' + (int)(i % 26));
	assert_has(peer_ask(&s, "GET /empty HTTP/1.1\r\n" CLOSE "\r\n"), "Content-Length: 0\r\n");
	assert_has(peer_ask(&s, "GET /taken HTTP/1.1\r\n" CLOSE "\r\n"), "\r\n\r\ntaken");
}

/* What was promised cannot be sent: the client must not take what came for all of it. */
static void a_file_that_is_shorter_than_told_is_broken_off(void **state)
{
	const char *got = peer_ask(&s, "GET /short HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	assert_has(got, "Content-Length: 100001\r\n");
	assert_int_equal(strlen(strstr(got, "\r\n\r\n")), 4 + 100000);
	assert_has(s.seen.data, "E:0");
}

static void without_content_there_is_no_length(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	peer_say(&p, "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"
		     "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 204 No Content\r\n");
	*strstr(p.in.data, "HTTP/1.1 200") = '\0';
	assert_hasnt(p.in.data, "Content-Length");
	peer_close(&p);
}

static void head_gets_the_headers_of_get_and_nothing_else(void **state)
{
	const char *got = peer_ask(&s, "HEAD /file HTTP/1.1\r\n" CLOSE "\r\n");

	(void)state;
	assert_has(got, "Content-Length: 100000\r\n");
	assert_int_equal(strlen(strstr(got, "\r\n\r\n")), 4);
	got = peer_ask(&s, "HEAD /headers HTTP/1.1\r\n" CLOSE "\r\n");
	assert_has(got, "Content-Length: 12\r\n"); /* "0 (none) GET" */
	got = peer_ask(&s, "HEAD /stream HTTP/1.1\r\n" CLOSE "\r\n");
	assert_has(got, "HTTP/1.1 200");
	assert_has(s.seen.data, "R:/stream E:1");
}

static void a_stream_comes_in_pieces(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	peer_wait(&p, "Transfer-Encoding: chunked\r\n\r\n");
	http_send(s.waiting, "one", 3);
	peer_wait(&p, "3\r\none\r\n");
	http_send(s.waiting, "", 0);
	http_send(s.waiting, "two", 3);
	http_send(s.waiting, "three", 5);
	peer_wait(&p, "8\r\ntwothree\r\n");
	http_end(s.waiting);
	http_send(s.waiting, "four", 4);
	peer_wait(&p, "\r\n0\r\n\r\n");
	assert_hasnt(p.in.data, "four");
	assert_has(s.seen.data, "E:1");
	/* and the connection goes on */
	peer_say(&p, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	peer_wait(&p, "\r\n\r\nhello");
	peer_close(&p);
}

static void clients_of_http_1_0_get_a_stream_without_chunks(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /stream HTTP/1.0\r\n\r\n");
	http_send(s.waiting, "one", 3);
	peer_wait(&p, "one");
	http_send(s.waiting, "two", 3);
	http_end(s.waiting);
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nonetwo");
	assert_has(s.seen.data, "E:1");
	peer_close(&p);
}

static void a_stream_that_is_broken_off_does_not_look_complete(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	http_send(s.waiting, "one", 3);
	peer_wait(&p, "one");
	http_abort(s.waiting);
	peer_wait_end(&p);
	assert_hasnt(p.in.data, "\r\n0\r\n");
	assert_has(s.seen.data, "E:0");
	peer_close(&p);
}

static void a_reader_that_is_slow_makes_the_producer_pause(void **state)
{
	static char block[16 * 1024];
	struct peer p;
	size_t sent = 0;
	size_t total = 0;

	(void)state;
	memset(block, 'x', sizeof(block));
	ask_later(&p, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	/* until nothing moves: the sockets are full, and so is the queue */
	for (int still = 0; still < 20; still++) {
		while (http_queued(s.waiting) <= HTTP_QUEUE_MAX) {
			http_send(s.waiting, block, sizeof(block));
			sent += sizeof(block);
			still = 0;
		}
		served_turn(&s, 1);
	}
	assert_true(http_queued(s.waiting) <= HTTP_QUEUE_MAX + sizeof(block));
	buf_clear(&s.seen);
	while (!strstr(s.seen.data, "M")) {
		char some[65536];
		ssize_t got = recv(p.fd, some, sizeof(some), MSG_DONTWAIT);

		total += got > 0 ? (size_t)got : 0;
		served_turn(&s, 1);
	}
	assert_true(http_queued(s.waiting) < HTTP_QUEUE_MAX / 2);
	assert_true(total <= sent + sent / 100);
	http_end(s.waiting);
	peer_wait(&p, "\r\n0\r\n\r\n");
	peer_close(&p);
}

static void a_producer_that_does_not_pause_is_broken_off(void **state)
{
	static char block[1024 * 1024];
	struct peer p;

	(void)state;
	ask_later(&p, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		http_send(s.waiting, block, sizeof(block));
		assert_true(http_queued(s.waiting) <= HTTP_QUEUE_END);
	}
	served_wait(&s, "E:0");
	peer_close(&p);
}

/* ---- clients that go away ---- */

static void a_client_that_goes_away_is_noticed_while_it_waits(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "POST /later HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}");
	peer_close(&p);
	served_wait(&s, "E:0");
	assert_int_equal(http_connections(s.http), 0);
}

static void a_client_that_resets_is_noticed(void **state)
{
	struct linger now = { .l_onoff = 1 };
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	peer_close(&p);
	served_wait(&s, "E:0");
}

static void a_client_that_had_an_answer_before_is_noticed_too(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	reply("first");
	peer_wait(&p, "first");
	buf_clear(&s.seen);
	peer_say(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	served_wait(&s, "R:/later");
	peer_close(&p);
	served_wait(&s, "E:0");
}

static void a_client_that_leaves_a_silent_stream_is_noticed(void **state)
{
	static const char *const types[] = { "text/event-stream", "application/x-ndjson" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct buf text = { 0 };
		struct peer p;

		buf_clear(&s.seen);
		buf_addf(&text, "GET /stream?type=%s HTTP/1.1\r\nHost: h\r\n\r\n", types[i]);
		ask_later(&p, text.data);
		http_send(s.waiting, "x", 1);
		peer_wait(&p, "\r\n1\r\nx\r\n");
		peer_close(&p);
		served_wait(&s, "E:0");
		buf_free(&text);
	}
}

static void a_half_closed_client_still_gets_its_answer(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	shutdown(p.fd, SHUT_WR);
	if (!s.is_local)
		peer_wait(&p, "HTTP/1.1 100 Continue\r\n\r\n");
	for (int i = 0; i < 20; i++)
		served_turn(&s, 1);
	assert_hasnt(s.seen.data, "E:");
	reply("in time");
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 200 OK\r\n");
	assert_has(p.in.data, "\r\n\r\nin time");
	assert_has(s.seen.data, "E:1");
	peer_close(&p);
}

static void a_half_closed_client_that_then_goes_is_noticed(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
	shutdown(p.fd, SHUT_WR);
	if (!s.is_local)
		peer_wait(&p, "100 Continue\r\n\r\n");
	/* on TCP nothing can tell until something is sent: here the answer itself */
	peer_close(&p);
	if (!s.is_local)
		reply("too late");
	served_wait(&s, "E:");
}

static void a_half_closed_client_gets_all_of_a_stream(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	shutdown(p.fd, SHUT_WR);
	for (int i = 0; i < 20; i++)
		served_turn(&s, 1);
	assert_hasnt(s.seen.data, "E:");
	http_send(s.waiting, "data", 4);
	http_end(s.waiting);
	peer_wait_end(&p);
	assert_has(p.in.data, "4\r\ndata\r\n0\r\n\r\n");
	assert_has(s.seen.data, "E:1");
	peer_close(&p);
}

static void a_half_closed_client_of_http_1_0_is_sent_nothing_but_its_answer(void **state)
{
	struct peer p;

	(void)state;
	ask_later(&p, "GET /later HTTP/1.0\r\n\r\n");
	shutdown(p.fd, SHUT_WR);
	for (int i = 0; i < 20; i++)
		served_turn(&s, 1);
	reply("in time");
	peer_wait_end(&p);
	assert_true(strncmp(p.in.data, "HTTP/1.1 200 OK\r\n", 17) == 0);
	peer_close(&p);
}

static void a_request_that_is_half_closed_at_once_is_served(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	assert_int_equal(write(p.fd, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n", 32), 32);
	shutdown(p.fd, SHUT_WR);
	peer_wait_end(&p);
	assert_has(p.in.data, "\r\n\r\nhello");
	peer_close(&p);
}

static void a_body_that_ends_early_is_never_served(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	peer_say(&p, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel");
	shutdown(p.fd, SHUT_WR);
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 400 ");
	assert_has(p.in.data, "The request ends early.");
	assert_string_equal(s.seen.data, " H:/echo X:400 E:1 ");
	peer_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_TCP(a_connection_serves_one_request_after_the_other),
		TEST_TCP(requests_sent_all_at_once_are_answered_in_order),
		TEST_LOCAL(a_body_is_awaited_even_if_there_is_no_room_to_say_so),
		TEST_TCP(an_answer_may_come_later),
		TEST_TCP(a_second_answer_is_none),
		TEST_TCP(files_are_sent),
		TEST_TCP(a_file_that_is_shorter_than_told_is_broken_off),
		TEST_TCP(without_content_there_is_no_length),
		TEST_TCP(head_gets_the_headers_of_get_and_nothing_else),
		TEST_TCP(a_stream_comes_in_pieces),
		TEST_TCP(clients_of_http_1_0_get_a_stream_without_chunks),
		TEST_TCP(a_stream_that_is_broken_off_does_not_look_complete),
		TEST_TCP(a_reader_that_is_slow_makes_the_producer_pause),
		TEST_LOCAL(a_reader_that_is_slow_makes_the_producer_pause),
		TEST_TCP(a_producer_that_does_not_pause_is_broken_off),
		TEST_TCP(a_client_that_goes_away_is_noticed_while_it_waits),
		TEST_LOCAL(a_client_that_goes_away_is_noticed_while_it_waits),
		TEST_TCP(a_client_that_resets_is_noticed),
		TEST_TCP(a_client_that_had_an_answer_before_is_noticed_too),
		TEST_LOCAL(a_client_that_had_an_answer_before_is_noticed_too),
		TEST_TCP(a_client_that_leaves_a_silent_stream_is_noticed),
		TEST_LOCAL(a_client_that_leaves_a_silent_stream_is_noticed),
		TEST_TCP(a_half_closed_client_still_gets_its_answer),
		TEST_LOCAL(a_half_closed_client_still_gets_its_answer),
		TEST_TCP(a_half_closed_client_that_then_goes_is_noticed),
		TEST_LOCAL(a_half_closed_client_that_then_goes_is_noticed),
		TEST_TCP(a_half_closed_client_gets_all_of_a_stream),
		TEST_LOCAL(a_half_closed_client_gets_all_of_a_stream),
		TEST_TCP(a_half_closed_client_of_http_1_0_is_sent_nothing_but_its_answer),
		TEST_TCP(a_request_that_is_half_closed_at_once_is_served),
		TEST_LOCAL(a_request_that_is_half_closed_at_once_is_served),
		TEST_TCP(a_body_that_ends_early_is_never_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
