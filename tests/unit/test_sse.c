#include "testing.h"

#include "base/own.h"
#include "cli/sse.h"

#include <string.h>

/* Events as "name=data|". */
static int on_event(void *context, const char *name, const char *data, size_t len, struct err *e)
{
	struct buf *seen = context;

	if (strcmp(data, "stop") == 0)
		return err_set(e, ERR_INPUT, "stopped");
	assert_int_equal(strlen(data), len);
	buf_addf(seen, "%s=%s|", name, data);
	return 0;
}

/* In pieces of every size: where they are cut must not matter. */
static void gives(const char *stream, const char *want)
{
	size_t len = strlen(stream);

	for (size_t piece = 1; piece <= len; piece++) {
		auto_buf struct buf seen = { 0 };
		struct sse s = { .on_event = on_event, .context = &seen };
		struct err e = { 0 };

		for (size_t at = 0; at < len; at += piece)
			assert_int_equal(
				sse_feed(&s, stream + at, len - at < piece ? len - at : piece, &e),
				0);
		buf_add(&seen, "", 0);
		assert_string_equal(seen.data, want);
		sse_free(&s);
	}
}

static void an_event_has_a_name_and_data(void **state)
{
	(void)state;
	gives("event: output\ndata: {\"a\":1}\n\nevent: result\ndata: {}\n\n",
		"output={\"a\":1}|result={}|");
}

static void every_line_end_will_do(void **state)
{
	(void)state;
	gives("event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\rdata: 3\n\n", "a=1|b=2|=3|");
}

static void several_lines_of_data_are_joined(void **state)
{
	(void)state;
	gives("data: 1\ndata:2\ndata:  3\n\n", "=1\n2\n 3|");
}

static void comments_and_unknown_fields_are_passed_over(void **state)
{
	(void)state;
	gives(": hello\nid: 7\nretry: 3\nnonsense\nevent: a\n: more\ndata: 1\n\n", "a=1|");
}

static void an_event_without_data_is_none(void **state)
{
	(void)state;
	gives("event: a\n\n\n\ndata: 1\n\n", "=1|");
}

static void an_event_that_is_not_ended_does_not_come(void **state)
{
	(void)state;
	gives("data: 1\n\ndata: 2\n", "=1|");
}

static void a_name_that_is_too_long_is_cut(void **state)
{
	auto_buf struct buf seen = { 0 };
	struct sse s = { .on_event = on_event, .context = &seen };
	struct err e = { 0 };
	char line[200];

	(void)state;
	memset(line, 'n', sizeof(line));
	sse_feed(&s, "event: ", 7, &e);
	sse_feed(&s, line, sizeof(line), &e);
	sse_feed(&s, "\ndata: 1\n\n", 10, &e);
	assert_int_equal(seen.len, SSE_NAME_MAX + 3);
	sse_free(&s);
}

/* One line, and many lines. */
static void an_event_without_end_is_refused(void **state)
{
	static char zeros[1 << 20];
	struct err e = { 0 };

	(void)state;
	memset(zeros, 'x', sizeof(zeros));
	for (int lines = 0; lines < 2; lines++) {
		auto_buf struct buf seen = { 0 };
		struct sse s = { .on_event = on_event, .context = &seen };
		int failed = 0;

		for (int i = 0; i < 64 && !failed; i++) {
			failed = lines ? sse_feed(&s, "\ndata:", 6, &e) : 0;
			failed = failed || sse_feed(&s, zeros, sizeof(zeros), &e);
		}
		assert_true(failed);
		assert_int_equal(e.kind, ERR_PROTOCOL);
		assert_true(s.data.len <= SSE_EVENT_MAX && s.line.len <= SSE_EVENT_MAX);
		sse_free(&s);
	}
}

static void what_the_listener_says_ends_it(void **state)
{
	auto_buf struct buf seen = { 0 };
	struct sse s = { .on_event = on_event, .context = &seen };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sse_feed(&s, "data: stop\n\ndata: more\n\n", 24, &e), -1);
	assert_string_equal(e.text, "stopped");
	assert_int_equal(seen.len, 0);
	sse_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_event_has_a_name_and_data),
		TEST(every_line_end_will_do),
		TEST(several_lines_of_data_are_joined),
		TEST(comments_and_unknown_fields_are_passed_over),
		TEST(an_event_without_data_is_none),
		TEST(an_event_that_is_not_ended_does_not_come),
		TEST(a_name_that_is_too_long_is_cut),
		TEST(an_event_without_end_is_refused),
		TEST(what_the_listener_says_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
