#include "testing.h"

#include "cli/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct err e;

static bool finds(const char *url, const char *key, struct server *ret)
{
	e = (struct err){ 0 };
	return server_find(&(struct server_options){ .url = url, .key = key }, ret, &e) == 0;
}

static void is_at(const char *url, const char *base, const char *socket_path)
{
	struct server s;

	if (!finds(url, NULL, &s))
		fail_msg("'%s': %s", url, e.text);
	assert_string_equal(s.base, base);
	if (socket_path)
		assert_string_equal(s.socket_path, socket_path);
	else
		assert_null(s.socket_path);
	server_free(&s);
}

static int forget_environment(void **state)
{
	unsetenv("HOTCELL_SERVER");
	unsetenv("HOTCELL_API_KEY");
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", "/nonexistent", 1);
	return scratch_make(state);
}

static void urls_and_sockets_are_understood(void **state)
{
	(void)state;
	is_at("http://localhost:8000", "http://localhost:8000", NULL);
	is_at("https://example.org/base//", "https://example.org/base", NULL);
	is_at("HTTP://[::1]:9", "HTTP://[::1]:9", NULL);
	is_at("unix:/run/x.sock", "http://localhost", "/run/x.sock");
	is_at("unix:///run/x.sock", "http://localhost", "/run/x.sock");
}

static void anything_else_is_refused(void **state)
{
	static const char *const urls[] = { "", "localhost", "localhost:8000", "ftp://x", "http://",
		"http:///x", "file:///etc/passwd", "http://user:word@host", "http://host?x",
		"http://host#x", "http://ho st", "http://host\nX: y", "unix:relative", "unix:" };
	struct server s;

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		if (finds(urls[i], NULL, &s))
			fail_msg("'%s' was taken", urls[i]);
		assert_int_equal(e.kind, ERR_INPUT);
	}
}

static void a_port_that_is_none_is_named(void **state)
{
	static const char *const urls[] = { "http://127.0.0.1:99999", "http://[::1]:99999/x",
		"https://host:99999" };
	struct server s;

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		assert_false(finds(urls[i], NULL, &s));
		assert_non_null(strstr(e.text, "port '99999': want a number from 1 to 65535"));
	}
	assert_false(finds("http://host:0", NULL, &s));
	assert_false(finds("http://host:8o", NULL, &s));
	is_at("http://host:65535/a:b", "http://host:65535/a:b", NULL);
	is_at("http://[::1]/x", "http://[::1]/x", NULL);
}

static void the_environment_names_one_if_the_command_line_does_not(void **state)
{
	struct server s;

	(void)state;
	setenv("HOTCELL_SERVER", "http://localhost:1", 1);
	assert_true(finds(NULL, NULL, &s));
	assert_string_equal(s.base, "http://localhost:1");
	server_free(&s);
	is_at("http://localhost:2", "http://localhost:2", NULL);
}

static void a_key_comes_from_the_command_line_then_the_environment(void **state)
{
	struct server s;

	(void)state;
	setenv("HOTCELL_API_KEY", "second", 1);
	assert_true(finds("http://localhost", "first", &s));
	assert_string_equal(s.key, "first");
	server_free(&s);
	assert_true(finds("http://localhost", NULL, &s));
	assert_string_equal(s.key, "second");
	server_free(&s);
	assert_false(finds("http://localhost", "with\r\nX-Header: y", &s));
	assert_false(finds("http://localhost", "", &s));
}

static void a_key_file_is_read_if_nobody_else_can(void **state)
{
	struct scratch *scratch = *state;
	struct server s;

	setenv("XDG_CONFIG_HOME", scratch->path, 1);
	make_dir(scratch->fd, "hotcell");
	write_file(scratch->fd, "hotcell/key", "hc_secret\n");
	assert_int_equal(fchmodat(scratch->fd, "hotcell/key", 0600, 0), 0);
	assert_true(finds("http://127.0.0.1:8000", NULL, &s));
	assert_string_equal(s.key, "hc_secret");
	server_free(&s);
	assert_int_equal(fchmodat(scratch->fd, "hotcell/key", 0640, 0), 0);
	assert_false(finds("http://127.0.0.1:8000", NULL, &s));
	assert_non_null(strstr(e.text, "0600"));
}

static void a_key_file_is_not_sent_in_the_clear_to_another_machine(void **state)
{
	struct scratch *scratch = *state;
	struct server s;

	setenv("XDG_CONFIG_HOME", scratch->path, 1);
	make_dir(scratch->fd, "hotcell");
	write_file(scratch->fd, "hotcell/key", "hc_secret\n");
	assert_int_equal(fchmodat(scratch->fd, "hotcell/key", 0600, 0), 0);
	assert_false(finds("http://example.org", NULL, &s));
	assert_false(finds("http://localhost.example.org", NULL, &s));
	assert_true(finds("https://example.org", NULL, &s));
	assert_string_equal(s.key, "hc_secret");
	server_free(&s);
	/* On a socket the kernel says who asks. */
	assert_true(finds("unix:/run/x", NULL, &s));
	assert_null(s.key);
	server_free(&s);
}

#define TEST_ALONE(name) cmocka_unit_test_setup_teardown(name, forget_environment, scratch_clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_ALONE(urls_and_sockets_are_understood),
		TEST_ALONE(anything_else_is_refused),
		TEST_ALONE(a_port_that_is_none_is_named),
		TEST_ALONE(the_environment_names_one_if_the_command_line_does_not),
		TEST_ALONE(a_key_comes_from_the_command_line_then_the_environment),
		TEST_ALONE(a_key_file_is_read_if_nobody_else_can),
		TEST_ALONE(a_key_file_is_not_sent_in_the_clear_to_another_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
