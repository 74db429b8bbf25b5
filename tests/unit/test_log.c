#include "testing.h"

#include "base/log.h"
#include "base/own.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Standard error becomes one end of a socket that keeps packets apart: one read is one write. */
static int hear_fd = -1;
static int real_stderr = -1;

static int listen_in(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	hear_fd = ends[0];
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_PLAIN);
	return 0;
}

static int stop_listening(void **state)
{
	(void)state;
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(hear_fd);
	return 0;
}

#define TEST_HEARING(name) cmocka_unit_test_setup_teardown(name, listen_in, stop_listening)

/* What was written at once, or NULL. Valid until the next. */
static const char *heard(void)
{
	static char text[65536];
	ssize_t len = recv(hear_fd, text, sizeof(text) - 1, 0);

	if (len < 0)
		return NULL;
	text[len] = '\0';
	return text;
}

/* What stands behind the time; fails if that has not the form 2026-11-16T10:00:00.123Z. */
static const char *behind_time(const char *line)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'd' ? !isdigit((unsigned char)line[i]) : line[i] != form[i])
			fail_msg("no time at the start of: %s", line);
	return line + sizeof(form) - 1;
}

static void hear_plain(const char *want)
{
	const char *line = heard();

	assert_non_null(line);
	assert_string_equal(behind_time(line), want);
}

static void hear_json(const char *want)
{
	const char *line = heard();

	assert_non_null(line);
	assert_memory_equal(line, "{\"time\":\"", 9);
	assert_string_equal(behind_time(line + 9), want);
}

static void an_event_is_one_line_with_its_fields(void **state)
{
	(void)state;
	log_info("session.closed", { "id", .text = "s1" }, { "age_s", .number = 900 });
	hear_plain(" info session.closed id=s1 age_s=900\n");
	log_error("x.failed", { "by", .number = INT64_MIN });
	hear_plain(" error x.failed by=-9223372036854775808\n");
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	log_warning("session.closed", { "id", .text = "s1" }, { "age_s", .number = 900 });
	hear_json(
		"\",\"level\":\"warning\",\"event\":\"session.closed\",\"id\":\"s1\",\"age_s\":900}\n");
	assert_null(heard());
}

static void an_event_needs_no_fields(void **state)
{
	(void)state;
	log_info("started");
	hear_plain(" info started\n");
}

static void what_is_below_the_level_is_not_said(void **state)
{
	(void)state;
	log_debug("quiet");
	assert_null(heard());
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_PLAIN);
	log_warning("quiet");
	assert_null(heard());
	log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
	log_debug("loud");
	hear_plain(" debug loud\n");
}

static void plain_text_can_fake_neither_a_line_nor_a_field(void **state)
{
	static const struct {
		const char *text;
		const char *want;
	} rows[] = {
		{ "a-b/c.d:e", "a-b/c.d:e" },
		{ "", "\"\"" },
		{ "two words", "\"two words\"" },
		{ "a=b", "\"a=b\"" },
		{ "a\"b", "\"a\\\"b\"" },
		{ "a\\b", "\"a\\\\b\"" },
		{ "x\n2026-11-16T10:00:00.123Z info y", "\"x\\n2026-11-16T10:00:00.123Z info y\"" },
		{ "\r\t\x1b[2J\x7f", "\"\\x0d\\x09\\x1b[2J\\x7f\"" },
		{ "\xc3\xa4\xff", "\"\\xc3\\xa4\\xff\"" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char want[256];

		log_info("e", { "t", .text = rows[i].text });
		snprintf(want, sizeof(want), " info e t=%s\n", rows[i].want);
		hear_plain(want);
	}
}

static void json_text_is_escaped_and_valid(void **state)
{
	static const struct {
		const char *text;
		const char *want;
	} rows[] = {
		{ "", "" },
		{ "two words", "two words" },
		{ "a\"b\\c", "a\\\"b\\\\c" },
		{ "x\n\t\x1b\x7f", "x\\u000a\\u0009\\u001b\\u007f" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "a\xff\xe2\x82z", "a\xef\xbf\xbd\xef\xbf\xbdz" },
	};

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char want[256];

		log_info("e", { "t", .text = rows[i].text });
		snprintf(want, sizeof(want),
			"\",\"level\":\"info\",\"event\":\"e\",\"t\":\"%s\"}\n", rows[i].want);
		hear_json(want);
	}
}

/* Of every length around the limit, and of letters that take one byte and more: the line must end as a line
 * does, and no letter may be broken. */
static void a_long_line_is_cut_at_a_letter_and_says_so(void **state)
{
	static const char *const letters[] = { "a", "\"", "\n", "\xc3\xa4", "\xf0\x9f\x98\x80",
		"\xff" };
	static const char *const ends[] = { " cut=yes\n", ",\"cut\":true}\n" };
	static char text[24000];

	(void)state;
	for (size_t i = 0; i < COUNT(letters) * 2; i++) {
		const char *letter = letters[i / 2];
		const char *end = ends[i % 2];
		const char *line;

		text[0] = '\0';
		for (size_t at = 0; at < 5000; at++)
			memcpy(text + at * strlen(letter), letter, strlen(letter) + 1);
		log_setup(LOG_LEVEL_INFO, i % 2 ? LOG_FORMAT_JSON : LOG_FORMAT_PLAIN);
		log_info("e", { "t", .text = text }, { "more", .number = 1 });
		line = heard();
		assert_non_null(line);
		assert_in_range(strlen(line), 4000, 4096);
		assert_string_equal(line + strlen(line) - strlen(end), end);
		assert_int_equal(line[strlen(line) - strlen(end) - 1], '"');
		assert_true(utf8_valid(line, strlen(line)));
		assert_null(strstr(line, "more"));
	}
}

static void a_field_that_does_not_fit_is_left_out_whole(void **state)
{
	static char text[4096];

	(void)state;
	for (size_t len = 3990; len < 4080; len++) {
		const char *line;
		size_t used;

		memset(text, 'a', len);
		text[len] = '\0';
		log_setup(LOG_LEVEL_INFO, LOG_FORMAT_PLAIN);
		log_info("e", { "t", .text = text }, { "number", .number = 1234567 });
		line = heard();
		used = strlen(line);
		assert_in_range(used, 1, 4096);
		assert_int_equal(line[used - 1], '\n');
		if (strstr(line, "number"))
			assert_non_null(strstr(line, " number=1234567\n"));
		else
			assert_non_null(strstr(line, " cut=yes\n"));
	}
}

static void errno_stays_as_it_was_even_if_nobody_takes_the_line(void **state)
{
	(void)state;
	close(hear_fd);
	hear_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(STDERR_FILENO);
	errno = ENOENT;
	log_info("lost");
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_HEARING(an_event_is_one_line_with_its_fields),
		TEST_HEARING(an_event_needs_no_fields),
		TEST_HEARING(what_is_below_the_level_is_not_said),
		TEST_HEARING(plain_text_can_fake_neither_a_line_nor_a_field),
		TEST_HEARING(json_text_is_escaped_and_valid),
		TEST_HEARING(a_long_line_is_cut_at_a_letter_and_says_so),
		TEST_HEARING(a_field_that_does_not_fit_is_left_out_whole),
		TEST_HEARING(errno_stays_as_it_was_even_if_nobody_takes_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
