#include "testing.h"

#include "base/own.h"
#include "service/rights.h"

static struct rights parsed(const char *json)
{
	struct rights r;
	struct err e = { 0 };

	if (rights_parse(json, &r, &e))
		fail_msg("%s: %s", json, e.text);
	return r;
}

static void is_refused(const char *json, const char *want)
{
	struct rights r = { .max_sessions = 77 };
	struct err e = { 0 };

	if (rights_parse(json, &r, &e) == 0)
		fail_msg("%s was taken", json);
	if (!strstr(e.text, want))
		fail_msg("%s: '%s' does not say '%s'", json, e.text, want);
	assert_int_equal(r.max_sessions, 77);
}

static void a_key_that_was_given_nothing_has_no_quotas_and_few_rights(void **state)
{
	struct rights r = parsed("{}");

	(void)state;
	assert_int_equal(r.runs_per_minute, 0);
	assert_int_equal(r.max_sessions, 0);
	assert_int_equal(r.max_stored_bytes, 0);
	assert_false(r.admin);
	assert_true(rights_allow_isolation(&r, HOTCELL_ISOLATION_AUTO));
	assert_true(rights_allow_isolation(&r, HOTCELL_ISOLATION_VM));
	assert_true(rights_allow_isolation(&r, HOTCELL_ISOLATION_CONTAINER));
	assert_false(rights_allow_isolation(&r, HOTCELL_ISOLATION_PROCESS));
	assert_int_equal(rights_auto(&r), HOTCELL_ISOLATION_AUTO);
	assert_true(rights_allow_language(&r, "anything"));
	assert_true(rights_allow_network(&r, HOTCELL_NETWORK_DEFAULT));
	assert_true(rights_allow_network(&r, HOTCELL_NETWORK_NONE));
	assert_false(rights_allow_network(&r, HOTCELL_NETWORK_HOST));
}

static void all_rights_are_all(void **state)
{
	struct rights r;

	(void)state;
	rights_set_all(&r);
	assert_true(r.admin);
	assert_true(rights_allow_isolation(&r, HOTCELL_ISOLATION_PROCESS));
	assert_true(rights_allow_network(&r, HOTCELL_NETWORK_HOST));
	assert_true(rights_allow_language(&r, "anything"));
	assert_int_equal(r.runs_per_minute + r.max_sessions + r.max_stored_bytes, 0);
}

static void the_weakest_isolation_is_held(void **state)
{
	struct rights vm = parsed("{\"weakest_isolation\":\"vm\"}");
	struct rights process = parsed("{\"weakest_isolation\":\"process\"}");

	(void)state;
	assert_true(rights_allow_isolation(&vm, HOTCELL_ISOLATION_VM));
	assert_false(rights_allow_isolation(&vm, HOTCELL_ISOLATION_CONTAINER));
	assert_false(rights_allow_isolation(&vm, HOTCELL_ISOLATION_PROCESS));
	assert_int_equal(rights_auto(&vm), HOTCELL_ISOLATION_VM);
	assert_true(rights_allow_isolation(&process, HOTCELL_ISOLATION_PROCESS));
	assert_int_equal(rights_auto(&process), HOTCELL_ISOLATION_AUTO);
}

static void listed_languages_are_the_only_ones(void **state)
{
	struct rights r = parsed("{\"languages\":[\"python\",\"c++\"]}");

	(void)state;
	assert_true(rights_allow_language(&r, "python"));
	assert_true(rights_allow_language(&r, "c++"));
	assert_false(rights_allow_language(&r, "c"));
	assert_false(rights_allow_language(&r, "pythonx"));
	assert_false(rights_allow_language(&r, ""));
}

static void what_is_written_is_read_back(void **state)
{
	static const char *const texts[] = {
		"{\"runs_per_minute\":60,\"max_sessions\":10,\"max_stored_bytes\":1048576,"
		"\"weakest_isolation\":\"vm\",\"languages\":[\"python\",\"r\"],\"network\":\"host\","
		"\"admin\":true}",
		"{\"runs_per_minute\":0,\"max_sessions\":0,\"max_stored_bytes\":0,"
		"\"weakest_isolation\":\"container\",\"network\":\"none\",\"admin\":false}",
		"{\"runs_per_minute\":1000000,\"max_sessions\":1000000,\"max_stored_bytes\":"
		"1152921504606846976,\"weakest_isolation\":\"process\",\"network\":\"none\",\"admin\":false}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct rights r = parsed(texts[i]);
		auto_free char *text = rights_format(&r);

		assert_string_equal(text, texts[i]);
	}
}

static void what_is_wrong_is_told_and_nothing_is_taken_of_it(void **state)
{
	static const char *const rows[][2] = {
		{ "", "rights: " },
		{ "nonsense", "rights: " },
		{ "[]", "want an object" },
		{ "null", "expected near" },
		{ "{\"max_sessions\":1,\"max_sessions\":2}", "duplicate" },
		{ "{\"max_session\":1}", "'max_session' is not known to this version" },
		{ "{\"max_sessions\":-1}", "max_sessions: want a number from 0 to 1000000" },
		{ "{\"max_sessions\":1000001}", "max_sessions: want a number" },
		{ "{\"max_sessions\":1.5}", "max_sessions: want a number" },
		{ "{\"max_sessions\":\"1\"}", "max_sessions: want a number" },
		{ "{\"runs_per_minute\":null}", "runs_per_minute: want a number" },
		{ "{\"max_stored_bytes\":1152921504606846977}", "max_stored_bytes: want a number" },
		{ "{\"weakest_isolation\":\"auto\"}", "want vm, container or process" },
		{ "{\"weakest_isolation\":\"\"}", "want vm, container or process" },
		{ "{\"weakest_isolation\":1}", "want vm, container or process" },
		{ "{\"network\":\"internet\"}", "want none or host" },
		{ "{\"network\":null}", "want none or host" },
		{ "{\"admin\":1}", "admin: want true or false" },
		{ "{\"admin\":\"true\"}", "admin: want true or false" },
		{ "{\"languages\":\"python\"}", "languages: want a list of ids" },
		{ "{\"languages\":[]}", "languages: want a list of ids" },
		{ "{\"languages\":[1]}", "languages: want a list of ids" },
		{ "{\"languages\":[\"../x\"]}", "languages = '../x': want ids" },
		{ "{\"languages\":[\"\"]}", "want ids" },
		{ "{\"languages\":[\"a23456789012345678901234567890123\"]}", "want ids" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		is_refused(rows[i][0], rows[i][1]);
}

static void there_is_an_end_to_everything(void **state)
{
	static char text[20000];
	struct rights r;
	struct err e = { 0 };

	(void)state;
	rights_set_default(&r);
	for (int i = 0; i < RIGHTS_LANGUAGES_MAX; i++)
		assert_int_equal(rights_add_language(&r, "python", &e), 0);
	assert_int_equal(rights_add_language(&r, "python", &e), -1);
	memset(text, ' ', sizeof(text) - 1);
	is_refused(text, "more than 16384 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_key_that_was_given_nothing_has_no_quotas_and_few_rights),
		TEST(all_rights_are_all),
		TEST(the_weakest_isolation_is_held),
		TEST(listed_languages_are_the_only_ones),
		TEST(what_is_written_is_read_back),
		TEST(what_is_wrong_is_told_and_nothing_is_taken_of_it),
		TEST(there_is_an_end_to_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
