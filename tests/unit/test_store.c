#include "store_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- opening ---- */

static void change(const char *dir, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(in(dir, "hotcell.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void refused(const char *dir, const char *because)
{
	unsigned open_before = count_open_fds();
	struct store *s = NULL;
	struct err e;

	assert_int_equal(store_open(dir, &s, &e), -1);
	assert_null(s);
	assert_non_null(strstr(e.text, dir));
	if (!strstr(e.text, because))
		print_message("%s\n", e.text);
	assert_non_null(strstr(e.text, because));
	assert_int_equal(store_open_keys(dir, &s, &e), -1);
	assert_int_equal(count_open_fds(), open_before);
}

static void closing_nothing_is_fine(void **state)
{
	(void)state;
	store_close(NULL);
}

static void a_newer_database_is_refused_and_left_alone(void **state)
{
	const struct scratch *dir = *state;

	store_close(open_store(dir->path));
	change(dir->path, "PRAGMA user_version = 99");
	refused(dir->path, "has version 99");
	change(dir->path, "PRAGMA user_version = 1");
	store_close(open_store(dir->path));
}

static void another_programs_database_is_refused(void **state)
{
	const struct scratch *dir = *state;

	change(dir->path, "CREATE TABLE other (x)");
	refused(dir->path, "another program");
}

static void a_damaged_database_is_refused(void **state)
{
	const struct scratch *dir = *state;

	write_file(
		dir->fd, "hotcell.db", "This is not what SQLite writes, and far too short for it.");
	refused(dir->path, "damaged");
}

static void a_database_with_a_damaged_page_is_refused(void **state)
{
	const struct scratch *dir = *state;
	static char garbage[4096 * 30];
	struct store_key *keys;
	struct store *s = NULL;
	size_t count;
	struct err e;
	int fd;

	store_close(open_store(dir->path));
	memset(garbage, 0x5a, sizeof(garbage));
	fd = open(in(dir->path, "hotcell.db"), O_WRONLY | O_CLOEXEC);
	assert_true(pwrite(fd, garbage, sizeof(garbage), 4096) == sizeof(garbage));
	close(fd);
	assert_int_equal(store_open(dir->path, &s, &e), -1);
	assert_non_null(strstr(e.text, "damaged"));
	/* Who wants nothing but keys looks at nothing but keys. */
	assert_int_equal(store_open_keys(dir->path, &s, &e), 0);
	assert_int_equal(store_list_keys(s, &keys, &count, &e), -1);
	assert_non_null(strstr(e.text, "damaged"));
	assert_true(store_has_keys(s));
	store_close(s);
}

static void a_directory_that_is_none_is_refused(void **state)
{
	const struct scratch *dir = *state;

	write_file(dir->fd, "file", "x");
	refused(in(dir->path, "file"), "Not a directory");
	refused(in(dir->path, "file/below"), "Not a directory");
}

static void open_as_a_stranger(const char *dir)
{
	struct store *s = NULL;
	struct err e;

	if (geteuid() == 0)
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK(store_open(dir, &s, &e) == -1);
	CHECK(strstr(e.text, "must be readable and writable by this user"));
	CHECK(store_open_keys(dir, &s, &e) == -1);
}

static void open_anothers_database(const char *dir)
{
	struct store *s = NULL;
	struct err e;

	if (geteuid() == 0)
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK(store_open(dir, &s, &e) == -1);
	CHECK(strstr(e.text, "hotcell.db"));
	CHECK(strstr(e.text, "writable by this user"));
}

static void who_may_not_is_told_so(void **state)
{
	const struct scratch *dir = *state;

	store_close(open_store(in(dir->path, "mine")));
	assert_int_equal(chmod(dir->path, 0711), 0);
	assert_int_equal(chmod(in(dir->path, "mine"), 0), 0);
	in_a_child(open_as_a_stranger, in(dir->path, "mine"));
	assert_int_equal(chmod(in(dir->path, "mine"), 0777), 0);
	assert_int_equal(chmod(in(dir->path, "mine/hotcell.db"), 0444), 0);
	in_a_child(open_anothers_database, in(dir->path, "mine"));
	assert_int_equal(chmod(in(dir->path, "mine/hotcell.db"), 0), 0);
	in_a_child(open_anothers_database, in(dir->path, "mine"));
}

/* ---- sessions ---- */

static struct store_session session_of(const char *id)
{
	struct store_session session = {
		.owner = "me", .config_json = "{\"a\":1}", .created_s = 1, .expires_s = 2.5
	};

	snprintf(session.id, sizeof(session.id), "%s", id);
	return session;
}

static void put_session(struct store *s, const struct store_session *session)
{
	struct told told = { 0 };

	store_put_session(s, session, tell, &told);
	wait_until_told(s, &told, 1);
	assert_int_equal(told.failures, 0);
}

static void a_session_is_found_by_its_owner(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_session session;
	struct store_session found;
	char id[STORE_ID_SIZE];
	struct err e;

	store_make_id(id);
	session = session_of(id);
	put_session(s, &session);
	assert_int_equal(store_find_session(s, id, "me", &found, &e), 0);
	assert_string_equal(found.id, id);
	assert_string_equal(found.config_json, "{\"a\":1}");
	assert_null(found.lost);
	assert_true(found.created_s == 1 && found.expires_s == 2.5);
	store_session_free(&found);
	assert_int_equal(store_find_session(s, id, "other", &found, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(store_find_session(s, "../x", NULL, &found, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	store_close(s);
}

static void a_session_can_be_replaced_and_removed_in_the_order_asked_for(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_session session;
	struct store_session found;
	char id[STORE_ID_SIZE];
	struct told told = { 0 };
	struct err e;

	store_make_id(id);
	session = session_of(id);
	/* All at once: one transaction, in this order. */
	store_put_session(s, &session, tell, &told);
	store_remove_session(s, id, tell, &told);
	session.expires_s = 99;
	store_put_session(s, &session, tell, &told);
	wait_until_told(s, &told, 3);
	assert_int_equal(told.failures, 0);
	assert_int_equal(store_find_session(s, id, "me", &found, &e), 0);
	assert_true(found.expires_s == 99);
	store_session_free(&found);
	store_remove_session(s, id, tell, &told);
	store_remove_session(s, id, tell, &told);
	wait_until_told(s, &told, 5);
	assert_int_equal(told.failures, 1);
	assert_int_equal(told.e.kind, ERR_NOT_FOUND);
	assert_int_equal(store_find_session(s, id, "me", &found, &e), -1);
	store_close(s);
}

static void sessions_that_lived_are_lost_and_in_the_end_forgotten(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char ids[2][STORE_ID_SIZE];
	struct store_session sessions[2];
	struct store_session found;
	struct err e;

	for (int i = 0; i < 2; i++) {
		store_make_id(ids[i]);
		sessions[i] = session_of(ids[i]);
	}
	sessions[1].lost = "it was idle";
	put_session(s, &sessions[0]);
	put_session(s, &sessions[1]);
	assert_int_equal(store_lose_sessions(s, "a restart", now_s() - 100, &e), 0);
	assert_int_equal(store_find_session(s, ids[0], "me", &found, &e), 0);
	assert_string_equal(found.lost, "a restart");
	store_session_free(&found);
	assert_int_equal(store_find_session(s, ids[1], "me", &found, &e), 0);
	assert_string_equal(found.lost, "it was idle");
	store_session_free(&found);

	/* One that lives is not forgotten, however old it is. */
	sessions[0].lost = NULL;
	put_session(s, &sessions[0]);
	store_forget_sessions(s, now_s() + 100);
	while (store_queued(s))
		store_dispatch(s);
	assert_int_equal(store_find_session(s, ids[1], "me", &found, &e), -1);
	assert_int_equal(store_find_session(s, ids[0], "me", &found, &e), 0);
	store_session_free(&found);
	assert_int_equal(store_lose_sessions(s, "a restart", now_s() + 100, &e), 0);
	assert_int_equal(store_find_session(s, ids[0], "me", &found, &e), -1);
	store_close(s);
}

static void what_is_too_large_or_missing_is_refused(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char *large = calloc(1, STORE_JSON_MAX + 2);
	struct store_session session = session_of("6fa459ea-ee8a-4ca4-894e-db77e160355e");
	struct store_language language = { .id = "x", .owner = "me", .yaml = large };
	struct told told = { 0 };
	struct err e;

	memset(large, 'x', STORE_JSON_MAX);
	session.config_json = large;
	store_put_session(s, &session, tell, &told);
	store_put_language(s, &language, tell, &told);
	wait_until_told(s, &told, 2);
	assert_int_equal(told.failures, 0);
	large[STORE_JSON_MAX] = 'x';
	store_put_session(s, &session, tell, &told);
	wait_until_told(s, &told, 3);
	assert_int_equal(told.failures, 1);
	assert_int_equal(told.e.kind, ERR_LIMIT);
	store_put_language(s, &language, tell, &told);
	wait_until_told(s, &told, 4);
	assert_int_equal(told.failures, 2);
	session.config_json = NULL;
	store_put_session(s, &session, tell, &told);
	wait_until_told(s, &told, 5);
	assert_int_equal(told.failures, 3);
	assert_int_equal(told.e.kind, ERR_INPUT);
	assert_int_equal(store_lose_sessions(s, large, 0, &e), -1);
	store_close(s);
	free(large);
}

/* ---- keys ---- */

static int add_key(
	struct store *s, const char *name, uint8_t byte, char ret_id[STORE_ID_SIZE], struct err *e)
{
	const uint8_t hash[32] = { byte };
	char copy[STORE_NAME_MAX + 2];
	struct store_key key = { .name = copy, .rights_json = "{\"x\":1}", .created_s = byte };

	snprintf(copy, sizeof(copy), "%s", name);
	store_make_id(key.id);
	memcpy(ret_id, key.id, STORE_ID_SIZE);
	return store_add_key(s, &key, hash, e);
}

static bool is_good(struct store *s, uint8_t byte, const char *name)
{
	const uint8_t hash[32] = { byte };
	struct store_key key;
	struct err e;

	if (store_find_key(s, hash, &key, &e)) {
		assert_int_equal(e.kind, ERR_NOT_FOUND);
		return false;
	}
	assert_string_equal(key.name, name);
	assert_string_equal(key.rights_json, "{\"x\":1}");
	store_key_free(&key);
	return true;
}

static void a_key_is_good_until_it_is_revoked(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_key *keys;
	char id[STORE_ID_SIZE];
	size_t count;
	struct err e;

	assert_false(store_has_keys(s));
	assert_int_equal(add_key(s, "one", 1, id, &e), 0);
	assert_true(store_has_keys(s));
	assert_true(is_good(s, 1, "one"));
	assert_false(is_good(s, 2, "two"));
	assert_int_equal(store_revoke_key(s, "one", 5, &e), 0);
	assert_false(is_good(s, 1, "one"));
	assert_true(store_has_keys(s));
	assert_int_equal(store_revoke_key(s, "one", 5, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	/* Its name is free again, its secret is not. */
	assert_int_equal(add_key(s, "one", 1, id, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(add_key(s, "one", 2, id, &e), 0);
	assert_int_equal(store_revoke_key(s, id, 6, &e), 0);
	assert_false(is_good(s, 2, "one"));
	assert_int_equal(store_list_keys(s, &keys, &count, &e), 0);
	assert_int_equal(count, 2);
	assert_true(keys[0].revoked_s == 5 && keys[1].revoked_s == 6);
	store_keys_free(keys, count);
	store_close(s);
}

static void a_keys_name_is_its_own(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char *name = calloc(1, STORE_NAME_MAX + 2);
	char id[STORE_ID_SIZE];
	struct err e;

	assert_int_equal(add_key(s, "one", 1, id, &e), 0);
	assert_int_equal(add_key(s, "one", 2, id, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_non_null(strstr(e.text, "'one'"));
	assert_int_equal(add_key(s, "6fa459ea-ee8a-4ca4-894e-db77e160355e", 2, id, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(add_key(s, "", 2, id, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	memset(name, 'x', STORE_NAME_MAX + 1);
	assert_int_equal(add_key(s, name, 2, id, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	name[STORE_NAME_MAX] = '\0';
	assert_int_equal(add_key(s, name, 2, id, &e), 0);
	assert_true(is_good(s, 1, "one"));
	assert_true(is_good(s, 2, name));
	store_close(s);
	free(name);
}

/* ---- languages ---- */

static void languages_are_put_replaced_listed_and_removed(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_language b = { .id = "b", .owner = "me", .yaml = "one", .created_s = 1 };
	struct store_language a = { .id = "a", .owner = "me", .yaml = "two", .created_s = 2 };
	struct store_language *found;
	struct told told = { 0 };
	size_t count;
	struct err e;

	store_put_language(s, &b, tell, &told);
	store_put_language(s, &a, tell, &told);
	b.yaml = "three";
	store_put_language(s, &b, tell, &told);
	wait_until_told(s, &told, 3);
	assert_int_equal(told.failures, 0);
	store_close(s);
	s = open_store(dir->path);
	assert_int_equal(store_list_languages(s, &found, &count, &e), 0);
	assert_int_equal(count, 2);
	assert_string_equal(found[0].id, "a");
	assert_string_equal(found[1].yaml, "three");
	assert_string_equal(found[1].owner, "me");
	assert_true(found[0].created_s == 2);
	store_languages_free(found, count);
	store_remove_language(s, "a", tell, &told);
	store_remove_language(s, "a", NULL, NULL);
	wait_until_told(s, &told, 4);
	assert_int_equal(told.failures, 0);
	store_remove_language(s, "a", tell, &told);
	wait_until_told(s, &told, 5);
	assert_int_equal(told.e.kind, ERR_NOT_FOUND);
	assert_int_equal(store_list_languages(s, &found, &count, &e), 0);
	assert_int_equal(count, 1);
	store_languages_free(found, count);
	store_close(s);
}

/* ---- history ---- */

static void add_run(
	struct store *s, const char *owner, double started_s, char ret_id[STORE_ID_SIZE])
{
	char owned[16];
	struct store_run run = { .owner = owned, .summary_json = "{}", .started_s = started_s };

	snprintf(owned, sizeof(owned), "%s", owner);
	store_make_id(run.id);
	memcpy(ret_id, run.id, STORE_ID_SIZE);
	store_add_run(s, &run);
}

static void a_run_is_found_at_once_and_after_opening_again(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char id[STORE_ID_SIZE];
	struct store_run found;
	struct err e;

	add_run(s, "me", 3, id);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_find_run(s, id, "me", &found, &e), 0);
		assert_string_equal(found.id, id);
		assert_string_equal(found.summary_json, "{}");
		assert_null(found.session);
		assert_true(found.started_s == 3);
		store_run_free(&found);
		assert_int_equal(store_find_run(s, id, "other", &found, &e), -1);
		assert_int_equal(e.kind, ERR_NOT_FOUND);
		if (i == 0) {
			store_close(s);
			s = open_store(dir->path);
		}
	}
	assert_int_equal(store_find_run(s, "nonsense", NULL, &found, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	store_close(s);
}

/* While they are on their way to the database, too: for longer than they wait. */
static void runs_are_listed_newest_first_and_each_once(void **state)
{
	enum { RUNS = 60, LIMIT = 25 };
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	double end = now_s() + 2.2;
	unsigned added = 0;
	struct err e;

	while (now_s() < end || added < RUNS) {
		struct timespec pause = { .tv_nsec = 2000000 };
		struct store_run *runs;
		char id[STORE_ID_SIZE];
		size_t count;

		add_run(s, "me", ++added, id);
		add_run(s, "other", added, id);
		assert_int_equal(store_list_runs(s, "me", LIMIT, &runs, &count, &e), 0);
		assert_int_equal(count, added < LIMIT ? added : LIMIT);
		for (size_t i = 0; i < count; i++) {
			assert_true(runs[i].started_s == (double)(added - i));
			assert_string_equal(runs[i].owner, "me");
		}
		store_runs_free(runs, count);
		nanosleep(&pause, NULL);
	}
	store_close(s);
}

static void history_is_trimmed_to_the_newest(void **state)
{
	enum { RUNS = 12000, KEPT = 700 }; /* more than one transaction adds or trims */
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_run *runs;
	char id[STORE_ID_SIZE];
	size_t count;
	struct err e;

	for (int i = 0; i < RUNS; i++)
		add_run(s, "me", i, id);
	store_close(s);
	s = open_store(dir->path);
	assert_int_equal(store_list_runs(s, "me", 1000000, &runs, &count, &e), 0);
	assert_int_equal(count, STORE_LIST_MAX);
	store_runs_free(runs, count);
	store_trim_runs(s, KEPT);
	while (store_queued(s))
		store_dispatch(s);
	assert_int_equal(store_list_runs(s, "me", RUNS, &runs, &count, &e), 0);
	assert_int_equal(count, KEPT);
	assert_true(runs[0].started_s == RUNS - 1);
	assert_true(runs[KEPT - 1].started_s == RUNS - KEPT);
	store_runs_free(runs, count);
	assert_int_equal(store_list_runs(s, "me", 0, &runs, &count, &e), 0);
	assert_int_equal(count, 0);
	store_runs_free(runs, count);
	store_trim_runs(s, UINT64_MAX);
	store_close(s);
}

static void a_run_that_is_too_large_is_not_kept(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char *large = calloc(1, STORE_JSON_MAX + 2);
	struct store_run run = { .owner = "me", .session = "a session", .summary_json = large };
	struct store_run found;
	struct err e;

	memset(large, 'x', STORE_JSON_MAX + 1);
	store_make_id(run.id);
	store_add_run(s, &run);
	assert_int_equal(store_find_run(s, run.id, NULL, &found, &e), -1);
	large[STORE_JSON_MAX] = '\0';
	/* Many of these wait only as far as there is memory for them. */
	for (int i = 0; i < 100; i++) {
		store_make_id(run.id);
		store_add_run(s, &run);
	}
	assert_int_equal(store_find_run(s, run.id, NULL, &found, &e), 0);
	assert_string_equal(found.session, "a session");
	store_run_free(&found);
	store_close(s);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(closing_nothing_is_fine),
		TEST_IN_SCRATCH(a_newer_database_is_refused_and_left_alone),
		TEST_IN_SCRATCH(another_programs_database_is_refused),
		TEST_IN_SCRATCH(a_damaged_database_is_refused),
		TEST_IN_SCRATCH(a_database_with_a_damaged_page_is_refused),
		TEST_IN_SCRATCH(a_directory_that_is_none_is_refused),
		TEST_IN_SCRATCH(who_may_not_is_told_so),
		TEST_IN_SCRATCH(a_session_is_found_by_its_owner),
		TEST_IN_SCRATCH(a_session_can_be_replaced_and_removed_in_the_order_asked_for),
		TEST_IN_SCRATCH(sessions_that_lived_are_lost_and_in_the_end_forgotten),
		TEST_IN_SCRATCH(what_is_too_large_or_missing_is_refused),
		TEST_IN_SCRATCH(a_key_is_good_until_it_is_revoked),
		TEST_IN_SCRATCH(a_keys_name_is_its_own),
		TEST_IN_SCRATCH(languages_are_put_replaced_listed_and_removed),
		TEST_IN_SCRATCH(a_run_is_found_at_once_and_after_opening_again),
		TEST_IN_SCRATCH(runs_are_listed_newest_first_and_each_once),
		TEST_IN_SCRATCH(history_is_trimmed_to_the_newest),
		TEST_IN_SCRATCH(a_run_that_is_too_large_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
