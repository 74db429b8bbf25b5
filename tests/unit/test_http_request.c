#include "http_peer.h"
#include "testing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;

static int open_server(void **state)
{
	(void)state;
	s = (struct served){ 0 };
	served_open(&s, (struct http_options){ .body_max = 1000 });
	return 0;
}

static int close_server(void **state)
{
	(void)state;
	served_close(&s);
	return 0;
}

#define TEST_SERVED(name) cmocka_unit_test_setup_teardown(name, open_server, close_server)
#define CLOSE             "Host: h\r\nConnection: close\r\n"

/* The status that such a request gets, after which the connection must end. */
static void expect_status(const char *text, const char *status)
{
	const char *got = peer_ask(&s, text);
	char line[32] = "HTTP/1.1 ";

	strcat(line, status);
	if (strncmp(got, line, strlen(line)) != 0)
		fail_msg("'%s' got '%s', not %s", text, got, status);
	if (strstr(got + 1, "HTTP/1.1 "))
		fail_msg("'%s' got more than one answer: '%s'", text, got);
}

static void expect_hello(const char *text)
{
	const char *got = peer_ask(&s, text);

	assert_has(got, "HTTP/1.1 200 OK");
	assert_has(got, "\r\n\r\nhello");
}

static void a_plain_request_is_served(void **state)
{
	(void)state;
	expect_hello("GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
	assert_string_equal(s.seen.data, " H:/hello R:/hello E:1 ");
}

static void a_target_may_name_the_host(void **state)
{
	(void)state;
	expect_hello("GET http://h/hello HTTP/1.1\r\n" CLOSE "\r\n");
	assert_string_equal(s.seen.data, " H:/hello R:/hello E:1 ");
	expect_hello("GET HTTP://H/hello?x=/ HTTP/1.1\r\n" CLOSE "\r\n");
	expect_hello("GET http://h HTTP/1.1\r\n" CLOSE "\r\n");
	expect_hello("GET http://h?/hello HTTP/1.1\r\n" CLOSE "\r\n");
	assert_has(s.seen.data, " H:/hello R:/hello E:1 H:/ R:/ E:1 H:/ R:/ E:1 ");
}

static void spaces_around_values_and_empty_values_are_in_order(void **state)
{
	(void)state;
	expect_hello("\r\nGET /hello HTTP/1.1\r\nHost:h\r\nX-Empty:\r\nX-B: \t b\tc  \r\n"
		     "X-High: \xc3\xa4\r\nConnection: close\r\n\r\n");
	expect_hello("GET /hello HTTP/1.0\r\n\r\n");
	expect_hello("GET /hello HTTP/1.0\r\nX:\r\n\r\n");
	expect_hello("DELETE /hello HTTP/1.1\r\n" CLOSE "Content-Length: 0\r\n\r\n");
}

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
	(void)state;
	/* where the body ends */
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\nContent-Length: 5\r\n"
		      "\r\nhello",
		"400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\ncontent-length: 6\r\n"
		      "\r\nhello",
		"400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5, 5\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: +5\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: -5\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 0x5\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5 ,\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5 5\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: \r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: five\r\n\r\nhello", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Content-Length: 99999999999999999999\r\n\r\nhello",
		"413");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Content-Length: 18446744073709551616\r\n\r\nhello",
		"413");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Content-Length: 18446744073709551615\r\n\r\nhello",
		"413");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"400");
	expect_status(
		"POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: gzip\r\n\r\nhello", "501");
	expect_status(
		"POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: gzip, chunked\r\n\r\n", "501");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Transfer-Encoding: chunked, identity\r\n\r\n",
		"501");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: xchunked\r\n\r\n", "501");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding:\vchunked\r\n\r\n", "400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"501");
	expect_status("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400");
	/* where a line ends */
	expect_status("GET /hello HTTP/1.1\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nX: y\nZ: z\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nX:\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\n\n", "400");
	expect_status("GET /hello HTTP/1.1\nHost: h\n\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nTransfer-Encod: x\r\n ing\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\n Host: h\r\n\r\n", "400");
	/* where a name ends */
	expect_status("GET /hello HTTP/1.1\r\nHost : h\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: h\r\nX\xc3\xa4: y\r\n\r\n", "400");
	/* who is meant */
	expect_status("GET /hello HTTP/1.1\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nX: y\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\n" CLOSE "Origin: a\r\nOrigin: b\r\n\r\n", "400");
	expect_status(
		"GET /hello HTTP/1.1\r\n" CLOSE "X-API-Key: a\r\nx-api-key: a\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1\r\n" CLOSE
		      "Authorization: Bearer a\r\nX: y\r\nauthorization: Bearer b\r\n\r\n",
		"400");
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE
		      "Content-Type: a/b\r\nContent-Length: 0\r\nContent-Type: c/d\r\n\r\n",
		"400");
	assert_hasnt(s.seen.data, "R:");
	expect_hello("GET /hello HTTP/1.1\r\n" CLOSE
		     "Origin: a\r\nX-API-Key: a\r\nAuthorization: a\r\nContent-Type: a/b\r\n\r\n");
}

static void expect_bytes_refused(const char *text, size_t len)
{
	const char *got = peer_ask_bytes(&s, text, len);

	assert_true(strncmp(got, "HTTP/1.1 400 ", 13) == 0);
}

#define REFUSED(text) expect_bytes_refused(text, sizeof(text) - 1)

static void nuls_are_refused_wherever_they_stand(void **state)
{
	(void)state;
	REFUSED("GET /hello\0x HTTP/1.1\r\nHost: h\r\n\r\n");
	REFUSED("GET /hello?a\0x HTTP/1.1\r\nHost: h\r\n\r\n");
	REFUSED("GET\0x /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\r\nX: a\0\0Y\0b\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\r\nX: a\0\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\r\n\0X: a\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\0\0\0\r\n\r\n");
	REFUSED("GET /hello HTTP/1.1\r\nHost: h\r\nX\0: a\r\n\r\n");
	assert_hasnt(s.seen.data, "R:");
}

static void odd_request_lines_are_refused(void **state)
{
	(void)state;
	expect_status("GET  /hello HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello  HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1 \r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hel lo HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hel\tlo HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hel\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello#x HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET hello HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET http://other/hello HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET http://h@other/hello HTTP/1.1\r\nHost: other\r\n\r\n", "400");
	expect_status("GET http:///hello HTTP/1.1\r\nHost: \r\n\r\n", "400");
	expect_status("GET http://h/hello HTTP/1.0\r\n\r\n", "400");
	expect_status("GET https://h/hello HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET http://hhello HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello http/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello HTTP/1.1x\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /hello\r\n\r\n", "400");
	expect_status("GET /hello HTTP/2.0\r\nHost: h\r\n\r\n", "505");
	expect_status("GET /hello HTTP/0.9\r\nHost: h\r\n\r\n", "505");
	expect_status("get /hello HTTP/1.1\r\nHost: h\r\n\r\n", "501");
	expect_status("TRACE /hello HTTP/1.1\r\nHost: h\r\n\r\n", "501");
	expect_status("CONNECT /hello HTTP/1.1\r\nHost: h\r\n\r\n", "501");
	expect_status("BREW /hello HTTP/1.1\r\nHost: h\r\n\r\n", "501");
	expect_status("GET /query/%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /query/a%00b HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /query?a=%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /query?a=%4 HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	expect_status("GET /query?a=%00 HTTP/1.1\r\nHost: h\r\n\r\n", "400");
	assert_hasnt(s.seen.data, "R:");
	/* no request at all, and no line to wait for: the greeting of TLS */
	expect_status("\x16\x03\x01\x02", "400");
	expect_status("\r\r\n\r\n", "400");
	expect_status("\n", "400");
}

/* Whatever the size, there is an answer, and the right one. */
static void heads_that_are_too_long_are_told_so(void **state)
{
	(void)state;
	for (size_t size = 1000; size < 40000; size += 97) {
		struct buf text = { 0 };
		const char *got;

		buf_addf(&text, "GET /hello HTTP/1.1\r\n" CLOSE "X-Long: ");
		memset(buf_reserve(&text, size), 'a', size);
		text.len += size;
		buf_add_str(&text, "\r\n\r\n");
		got = peer_ask_bytes(&s, text.data, text.len);
		if (strncmp(got, "HTTP/1.1 431", 12) != 0 || size < 12000)
			assert_has(got, "\r\n\r\nhello");
		else
			assert_true(size > 12000);
		buf_clear(&text);
		buf_add_str(&text, "GET /");
		memset(buf_reserve(&text, size), 'a', size);
		text.len += size;
		buf_add_str(&text, " HTTP/1.1\r\n" CLOSE "\r\n");
		got = peer_ask_bytes(&s, text.data, text.len);
		if ((strncmp(got, "HTTP/1.1 414", 12) != 0 &&
			    strncmp(got, "HTTP/1.1 431", 12) != 0) ||
			size < 12000)
			assert_has(got, "\r\n\r\nhello");
		buf_free(&text);
	}
}

static void many_headers_are_told_to_be_too_many(void **state)
{
	(void)state;
	for (unsigned count = 10; count < 800; count += 7) {
		struct buf text = { 0 };
		const char *got;

		buf_addf(&text, "GET /hello HTTP/1.1\r\n" CLOSE);
		for (unsigned i = 0; i < count; i++)
			buf_addf(&text, "A:\r\n");
		buf_add_str(&text, "\r\n");
		got = peer_ask_bytes(&s, text.data, text.len);
		if (strncmp(got, "HTTP/1.1 431", 12) != 0 || count < 80)
			assert_has(got, "\r\n\r\nhello");
		buf_clear(&text);
		buf_addf(&text, "GET /hello?");
		for (unsigned i = 0; i < count; i++)
			buf_addf(&text, "a&");
		buf_add_str(&text, " HTTP/1.1\r\n" CLOSE "Cookie: ");
		for (unsigned i = 0; i < count; i++)
			buf_addf(&text, "a=b;");
		buf_add_str(&text, "\r\n\r\n");
		got = peer_ask_bytes(&s, text.data, text.len);
		if (strncmp(got, "HTTP/1.1 431", 12) != 0 || count < 40)
			assert_has(got, "\r\n\r\nhello");
		buf_free(&text);
	}
}

static void headers_and_queries_are_found(void **state)
{
	(void)state;
	assert_has(peer_ask(&s, "GET /headers HTTP/1.1\r\n" CLOSE "X-a: 1\r\nx-A: 2\r\n\r\n"),
		"\r\n\r\n2 1 GET");
	assert_has(
		peer_ask(&s, "PATCH /headers HTTP/1.1\r\n" CLOSE "\r\n"), "\r\n\r\n0 (none) PATCH");
	assert_has(peer_ask(&s, "GET /query?b=1&a=x%20y+z%2b&a=2 HTTP/1.1\r\n" CLOSE "\r\n"),
		"\r\n\r\nx y z+");
	assert_has(
		peer_ask(&s, "GET /query?%61 HTTP/1.1\r\n" CLOSE "\r\n"), "Content-Length: 0\r\n");
	assert_has(
		peer_ask(&s, "GET /query?aa=1&=2&& HTTP/1.1\r\n" CLOSE "\r\n"), "\r\n\r\n(none)");
	assert_has(peer_ask(&s, "GET /query HTTP/1.1\r\n" CLOSE "\r\n"), "\r\n\r\n(none)");
}

static void decoding_is_strict(void **state)
{
	static const char *const bad[] = { "%", "%4", "%4g", "%g4", "a%", "%00", "a%00b", "%%41" };
	struct buf text = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(http_decode(bad[i], strlen(bad[i]), &text));
	assert_int_equal(text.len, 0);
	assert_false(http_decode("a\0b", 3, &text));
	assert_true(http_decode("%41%2F%2e+%fF", 13, &text));
	assert_string_equal(text.data, "A/.+\xff");
	assert_true(http_decode("", 0, &text));
	buf_free(&text);
}

/* However it is cut on its way, a request is the same. */
static void requests_may_come_byte_by_byte(void **state)
{
	static const char text[] =
		"\r\nPOST /echo?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
		"\r\nPOST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		"2;x=y\r\ntw\r\n01\r\no\r\n00\r\nTrailer: x\r\nOther: y\r\n\r\n";

	(void)state;
	for (size_t step = 1; step < 8; step++) {
		struct peer p;

		peer_open(&p, &s);
		buf_clear(&s.seen);
		for (size_t at = 0; at < sizeof(text) - 1; at += step) {
			size_t left = sizeof(text) - 1 - at;

			assert_true(peer_write(&p, text + at, left < step ? left : step));
		}
		peer_wait_end(&p);
		assert_has(p.in.data, "Content-Length: 3\r\n\r\none");
		assert_has(p.in.data, "Content-Length: 3\r\n\r\ntwo");
		assert_string_equal(s.seen.data, "H:/echo R:/echo E:1 H:/echo R:/echo E:1 ");
		peer_close(&p);
	}
}

static const char *ask_with_head_of(size_t size)
{
	static const char begin[] = "GET /hello HTTP/1.1\r\n" CLOSE "X: ";
	struct buf text = { 0 };
	size_t fill = size - (sizeof(begin) - 1) - 4;
	const char *got;

	buf_add_str(&text, begin);
	memset(buf_reserve(&text, fill), 'a', fill);
	text.len += fill;
	buf_add_str(&text, "\r\n\r\n");
	assert_int_equal(text.len, size);
	got = peer_ask_bytes(&s, text.data, text.len);
	buf_free(&text);
	return got;
}

static void a_head_may_have_16_kib_and_not_a_byte_more(void **state)
{
	(void)state;
	assert_has(ask_with_head_of(16384), "\r\n\r\nhello");
	assert_has(ask_with_head_of(16385), "HTTP/1.1 431 ");
}

static const char *ask_with_headers(unsigned count)
{
	struct buf text = { 0 };
	const char *got;

	buf_add_str(&text, "GET /hello HTTP/1.1\r\n" CLOSE);
	for (unsigned i = 2; i < count; i++)
		buf_add_str(&text, "A:\r\n");
	buf_add_str(&text, "\r\n");
	got = peer_ask_bytes(&s, text.data, text.len);
	buf_free(&text);
	return got;
}

static void there_may_be_128_headers_and_not_one_more(void **state)
{
	(void)state;
	assert_has(ask_with_headers(128), "\r\n\r\nhello");
	assert_has(ask_with_headers(129), "HTTP/1.1 431 ");
}

static void whether_a_connection_goes_on_is_up_to_its_client(void **state)
{
	static const struct {
		const char *request;
		const char *answered;
		bool goes_on;
	} cases[] = {
		{ "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n", "", true },
		{ "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n", "", true },
		{ "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: x , Close\r\n\r\n",
			"Connection: close\r\n", false },
		{ "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: close\r\n\r\n",
			"Connection: close\r\n", false },
		{ "GET /hello HTTP/1.0\r\n\r\n", "Connection: close\r\n", false },
		{ "GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
			"Connection: keep-alive\r\n", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peer p;

		peer_open(&p, &s);
		peer_say(&p, cases[i].request);
		peer_wait(&p, "\r\n\r\nhello");
		assert_has(p.in.data, cases[i].answered);
		if (cases[i].goes_on) {
			peer_say(&p, "GET /query?a=more HTTP/1.1\r\nHost: h\r\n\r\n");
			peer_wait(&p, "\r\n\r\nmore");
		} else {
			peer_wait_end(&p);
		}
		peer_close(&p);
	}
}

static void bodies_arrive_whole_with_a_length_or_in_chunks(void **state)
{
	(void)state;
	assert_has(peer_ask(&s, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nhello"),
		"\r\n\r\nhello");
	assert_has(
		peer_ask(&s, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
			     "3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"),
		"\r\n\r\nhello");
}

static void chunks_that_are_malformed_are_refused(void **state)
{
	static const char *const bad[] = { "x\r\n", "5\r\nhelloX\r\n", "-1\r\n", "\r\n",
		" 5\r\nhello\r\n", "0x5\r\nhello\r\n", "fffffffffffffffff\r\n", "5\nhello\r\n",
		"5\rhello\r\n", "5\r\nhello\n", "5\r\nhello\r5", "5;a\nb\r\nhello\r\n", ";\r\n",
		"5 \r\nhello\r\n", "5;\x01\r\n", "0\r\n\n", "0\r\n\rx", "0\r\nT: x\n\r\n",
		"0\r\nT: x\ry", "0\n\r\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf text = { 0 };

		buf_addf(&text,
			"POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n%s",
			bad[i]);
		expect_status(text.data, "400");
		buf_free(&text);
	}
	assert_hasnt(s.seen.data, "R:");
}

/* What follows a body in chunks, which somebody else may take for a part of it, is never served. */
static void nothing_is_served_behind_a_body_in_chunks(void **state)
{
	const char *got =
		peer_ask(&s, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
			     "\r\n1;\nx\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	assert_has(got, "Connection: close");
	assert_hasnt(s.seen.data, "/hello");
}

static void a_length_over_the_limit_is_refused_unread(void **state)
{
	const char *got =
		peer_ask(&s, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");

	(void)state;
	assert_has(got, "HTTP/1.1 413 ");
	assert_has(got, "{\"detail\":\"");
	assert_string_equal(s.seen.data, " H:/echo X:413 E:1 ");
	assert_has(peer_ask(&s, "PUT /limit HTTP/1.1\r\n" CLOSE "Content-Length: 11\r\n\r\n"),
		"HTTP/1.1 413 ");
	assert_has(peer_ask(&s,
			   "PUT /limit HTTP/1.1\r\n" CLOSE "Content-Length: 10\r\n\r\n1234567890"),
		"\r\n\r\n1234567890");
}

static void chunks_over_the_limit_are_refused_while_they_come(void **state)
{
	const char *got =
		peer_ask(&s, "POST /limit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
			     "\r\n8\r\n12345678\r\n8\r\n12345678\r\n");

	(void)state;
	assert_has(got, "HTTP/1.1 413 ");
	assert_has(got, "Connection: close\r\n");
	assert_has(got, "\r\n\r\n{\"detail\":\"");
	assert_string_equal(s.seen.data, " H:/limit X:413 E:1 ");
}

static void refusals_can_be_put_in_other_words(void **state)
{
	const char *got;

	(void)state;
	s.answers_refusals = true;
	got = peer_ask(&s, "GET /hello HTTP/1.1\r\n\r\n");
	assert_has(got, "X-Refused: yes\r\n");
	assert_has(got, "\r\n\r\nin my own words");
	got = peer_ask(&s, "POST /limit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
			   "\r\n10\r\n1234567812345678\r\n");
	assert_has(got, "HTTP/1.1 413 ");
	assert_has(got, "X-Refused: yes\r\n");
	assert_has(got, "\r\n\r\nin my own words");
}

/* Far more than fits into the sockets: the server must stop reading, and the client still see why. */
static void a_huge_body_is_not_read_whole(void **state)
{
	static const char head[] =
		"POST /limit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		"7fffffff\r\n";
	static char block[1 << 20];
	struct peer p;
	unsigned sent = 0;

	(void)state;
	peer_open(&p, &s);
	assert_true(peer_write(&p, head, sizeof(head) - 1));
	while (sent < 200 && peer_write(&p, block, sizeof(block)))
		sent++;
	assert_true(sent < 200);
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 413 ");
	peer_close(&p);
}

static void expecting_100_continue_gets_it_or_the_refusal(void **state)
{
	struct peer p;

	(void)state;
	peer_open(&p, &s);
	peer_say(&p, "POST /echo HTTP/1.1\r\n" CLOSE
		     "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	peer_wait(&p, "HTTP/1.1 100 Continue\r\n\r\n");
	peer_say(&p, "hello");
	peer_wait_end(&p);
	assert_has(p.in.data, "HTTP/1.1 200 OK\r\n");
	assert_has(p.in.data, "\r\n\r\nhello");
	peer_close(&p);
	expect_status("POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5000\r\n"
		      "Expect: 100-continue\r\n\r\n",
		"413");
	expect_status("POST /refuse HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n"
		      "Expect: 100-continue\r\n\r\n",
		"401");
	expect_status(
		"POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\nExpect: x\r\n\r\n", "417");
}

static void what_on_headers_refuses_is_not_read(void **state)
{
	struct peer p;

	(void)state;
	assert_has(
		peer_ask(&s, "POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"),
		"WWW-Authenticate: Bearer\r\n");
	assert_hasnt(s.seen.data, "R:");
	/* without a body the connection goes on */
	peer_open(&p, &s);
	peer_say(&p, "GET /refuse HTTP/1.1\r\nHost: h\r\n\r\n");
	peer_wait(&p, "no key");
	peer_say(&p, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	peer_wait(&p, "\r\n\r\nhello");
	peer_close(&p);
}

static void bodies_go_into_files(void **state)
{
	char body[1001];
	char back[1001];
	struct buf text = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)(i * 7);
	buf_add_str(&text, "PUT /in HTTP/1.1\r\n" CLOSE "Content-Length: 1000\r\n\r\n");
	buf_add(&text, body, 1000);
	assert_has(peer_ask_bytes(&s, text.data, text.len), "\r\n\r\n1000");
	assert_int_equal(pread(s.file_fd, back, sizeof(back), 0), 1000);
	assert_memory_equal(body, back, 1000);
	expect_status("PUT /in HTTP/1.1\r\n" CLOSE "Content-Length: 1001\r\n\r\n", "413");
	buf_clear(&text);
	buf_add_str(
		&text, "PUT /in HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n3e9\r\n");
	buf_add(&text, body, 1001);
	assert_has(peer_ask_bytes(&s, text.data, text.len), "HTTP/1.1 413 ");
	buf_free(&text);
}

static void a_file_that_cannot_be_written_is_told(void **state)
{
	(void)state;
	close(s.file_fd);
	s.file_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	expect_status("PUT /in HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nhello", "507");
	close(s.file_fd);
	s.file_fd = open("/dev/full", O_RDONLY | O_CLOEXEC);
	expect_status("PUT /in HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nhello", "500");
}

static const char *ask_form(const char *disposition, size_t size, const char *end)
{
	static struct buf text;
	struct buf form = { 0 };
	const char *got;

	buf_addf(&form, "--B\r\nContent-Disposition: form-data; %s\r\n\r\n", disposition);
	memset(buf_reserve(&form, size), 'x', size);
	form.len += size;
	buf_addf(&form, "%s", end);
	buf_clear(&text);
	buf_addf(&text,
		"POST /part HTTP/1.1\r\n" CLOSE "Content-Type: multipart/form-data; boundary=B\r\n"
		"Content-Length: %zu\r\n\r\n",
		form.len);
	buf_add(&text, form.data, form.len);
	got = peer_ask_bytes(&s, text.data, text.len);
	buf_free(&form);
	buf_free(&text);
	return got;
}

static void a_form_s_part_goes_into_a_file(void **state)
{
	char back[1001];

	(void)state;
	assert_has(ask_form("name=\"file\"; filename=\"../a b\"", 1000, "\r\n--B--\r\n"),
		"\r\n\r\npart '../a b' 1000");
	assert_int_equal(pread(s.file_fd, back, sizeof(back), 0), 1000);
	assert_has(ask_form("name=\"file\"", 0, "\r\n--B--\r\n"), "\r\n\r\npart '(none)' 0");
}

static void forms_without_the_part_or_too_large_or_broken_are_told(void **state)
{
	(void)state;
	assert_has(ask_form("name=\"other\"", 1, "\r\n--B--\r\n"), "\r\n\r\nno part");
	assert_has(ask_form("name=\"file\"", 1001, "\r\n--B--\r\n"), "HTTP/1.1 413 ");
	assert_has(ask_form("name=\"other\"", 100000, "\r\n--B--\r\n"), "HTTP/1.1 413 ");
	assert_has(ask_form("name=\"file\"", 1, ""), "HTTP/1.1 400 ");
	assert_has(ask_form("name=\"file\"", 1, "\r\n--Bx"), "HTTP/1.1 400 ");
	assert_has(peer_ask(&s, "POST /part HTTP/1.1\r\n" CLOSE
				"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
		"\r\n\r\nno part");
	assert_has(
		peer_ask(&s, "POST /part HTTP/1.1\r\n" CLOSE "Content-Type: multipart/form-data; "
			     "boundary=\"\r\nContent-Length: 2\r\n\r\n{}"),
		"\r\n\r\nno part");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_SERVED(a_plain_request_is_served),
		TEST_SERVED(a_target_may_name_the_host),
		TEST_SERVED(spaces_around_values_and_empty_values_are_in_order),
		TEST_SERVED(what_could_be_read_in_two_ways_is_refused),
		TEST_SERVED(nuls_are_refused_wherever_they_stand),
		TEST_SERVED(odd_request_lines_are_refused),
		TEST_SERVED(heads_that_are_too_long_are_told_so),
		TEST_SERVED(many_headers_are_told_to_be_too_many),
		TEST_SERVED(headers_and_queries_are_found),
		TEST(decoding_is_strict),
		TEST_SERVED(requests_may_come_byte_by_byte),
		TEST_SERVED(a_head_may_have_16_kib_and_not_a_byte_more),
		TEST_SERVED(there_may_be_128_headers_and_not_one_more),
		TEST_SERVED(whether_a_connection_goes_on_is_up_to_its_client),
		TEST_SERVED(bodies_arrive_whole_with_a_length_or_in_chunks),
		TEST_SERVED(chunks_that_are_malformed_are_refused),
		TEST_SERVED(nothing_is_served_behind_a_body_in_chunks),
		TEST_SERVED(a_length_over_the_limit_is_refused_unread),
		TEST_SERVED(chunks_over_the_limit_are_refused_while_they_come),
		TEST_SERVED(refusals_can_be_put_in_other_words),
		TEST_SERVED(a_huge_body_is_not_read_whole),
		TEST_SERVED(expecting_100_continue_gets_it_or_the_refusal),
		TEST_SERVED(what_on_headers_refuses_is_not_read),
		TEST_SERVED(bodies_go_into_files),
		TEST_SERVED(a_file_that_cannot_be_written_is_told),
		TEST_SERVED(a_form_s_part_goes_into_a_file),
		TEST_SERVED(forms_without_the_part_or_too_large_or_broken_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
