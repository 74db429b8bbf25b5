#include "store_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>

static const char *path_of(const char *dir, const char *id)
{
	char name[64];

	snprintf(name, sizeof(name), "files/%.2s/%s", id, id);
	return in(dir, name);
}

static void ids_have_one_form(void **state)
{
	static const char *const others[] = { "", "x", "../../etc/passwd",
		"00000000-0000-0000-0000-000000000000", "6FA459EA-EE8A-4CA4-894E-DB77E160355E",
		"6fa459ea-ee8a-4ca4-894e-db77e160355", "6fa459ea-ee8a-4ca4-894e-db77e160355e0",
		"6fa459ea-ee8a-3ca4-894e-db77e160355e", "6fa459ea-ee8a-4ca4-c94e-db77e160355e",
		"6fa459eaxee8a-4ca4-894e-db77e160355e", "6fa459ea-ee8a-4ca4-894e-db77e16035/e" };
	char id[STORE_ID_SIZE];
	char other[STORE_ID_SIZE];

	(void)state;
	assert_true(store_is_id("6fa459ea-ee8a-4ca4-894e-db77e160355e"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(store_is_id(others[i]));
	for (int i = 0; i < 1000; i++) {
		store_make_id(id);
		store_make_id(other);
		assert_true(store_is_id(id));
		assert_string_not_equal(id, other);
	}
}

static void a_file_is_there_once_it_was_told_and_after_opening_again(void **state)
{
	const struct scratch *dir = *state;
	unsigned open_before = count_open_fds();
	struct store *s = open_store(dir->path);
	char id[STORE_ID_SIZE];
	struct err e;

	store_make_id(id);
	assert_int_equal(keep_file(s, id, "some bytes", &e), 0);
	assert_int_equal(store_queued(s), 0);
	assert_true(has_file(s, id, "some bytes"));
	store_close(s);
	s = open_store(dir->path);
	assert_true(has_file(s, id, "some bytes"));
	store_close(s);
	assert_int_equal(count_open_fds(), open_before);
}

static void nobody_else_may_look(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(in(dir->path, "deep/down"));
	char id[STORE_ID_SIZE];
	struct stat status;
	struct err e;

	store_make_id(id);
	assert_int_equal(keep_file(s, id, "x", &e), 0);
	assert_int_equal(stat(in(dir->path, "deep/down"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	assert_int_equal(stat(in(dir->path, "deep/down/hotcell.db"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(stat(path_of(in(dir->path, "deep/down"), id), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	store_close(s);
}

static void a_file_is_its_owners(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_file file;
	struct store_file *files;
	char id[STORE_ID_SIZE];
	size_t count;
	struct err e;

	store_make_id(id);
	assert_int_equal(keep_file(s, id, "x", &e), 0);
	assert_int_equal(store_find_file(s, id, "other", &file, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(store_find_file(s, id, NULL, &file, &e), 0);
	assert_string_equal(file.owner, "me");
	assert_string_equal(file.name, "a name");
	store_file_free(&file);
	assert_int_equal(store_list_files(s, "other", &files, &count, &e), 0);
	assert_int_equal(count, 0);
	store_files_free(files, count);
	store_close(s);
}

static void names_are_kept_as_they_are_up_to_a_limit(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char *name = calloc(1, STORE_NAME_MAX + 2);
	struct store_file file = { .owner = "me", .name = name, .created_s = 1.5 };
	struct store_file found;
	struct told told = { 0 };
	struct err e;

	memset(name, '\'', STORE_NAME_MAX);
	memcpy(name, "../\n\t\"\xc3\xa4;--", 11);
	store_make_id(file.id);
	store_add_file(s, &file, blob_of(s, "", 0), tell, &told);
	wait_until_told(s, &told, 1);
	assert_int_equal(told.failures, 0);
	assert_int_equal(store_find_file(s, file.id, "me", &found, &e), 0);
	assert_string_equal(found.name, name);
	assert_true(found.created_s == 1.5);
	store_file_free(&found);

	name[STORE_NAME_MAX] = 'x';
	store_make_id(file.id);
	store_add_file(s, &file, blob_of(s, "", 0), tell, &told);
	assert_int_equal(told.times, 1); /* not from within */
	wait_until_told(s, &told, 2);
	assert_int_equal(told.failures, 1);
	assert_int_equal(told.e.kind, ERR_LIMIT);
	store_close(s);
	assert_int_equal(count_bytes(dir->path), 1);
	free(name);
}

static void a_removed_file_leaves_nothing_and_can_be_removed_once(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char id[STORE_ID_SIZE];
	struct err e;

	store_make_id(id);
	assert_int_equal(keep_file(s, id, "x", &e), 0);
	assert_int_equal(remove_file(s, id, &e), 0);
	assert_false(has_file(s, id, "x"));
	assert_int_equal(store_open_file(s, id, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(count_bytes(dir->path), 0);
	assert_int_equal(remove_file(s, id, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(remove_file(s, "../../hotcell.db", &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(store_open_file(s, "../../hotcell.db", &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	store_close(s);
}

static void a_blob_that_is_not_kept_leaves_nothing(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);

	close(blob_of(s, "never mind", 10));
	assert_int_equal(count_bytes(dir->path), 0);
	store_close(s);
}

static void files_are_listed_oldest_first(void **state)
{
	enum { FILES = 20 };
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_file *files;
	struct told told = { 0 };
	char ids[FILES][STORE_ID_SIZE];
	size_t count;
	struct err e;

	for (int i = 0; i < FILES; i++) {
		struct store_file file = { .owner = "me", .name = "n" };

		store_make_id(ids[i]);
		memcpy(file.id, ids[i], STORE_ID_SIZE);
		file.created_s = 1000 + i / 2; /* of two at the same time, as they came */
		store_add_file(s, &file, blob_of(s, "x", 1), tell, &told);
	}
	wait_until_told(s, &told, FILES);
	assert_int_equal(store_list_files(s, "me", &files, &count, &e), 0);
	assert_int_equal(count, FILES);
	for (int i = 0; i < FILES; i++)
		assert_string_equal(files[i].id, ids[i]);
	store_files_free(files, count);
	store_close(s);
}

static void one_that_fails_fails_alone(void **state)
{
	enum { GOOD = 50 };
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char ids[GOOD][STORE_ID_SIZE];
	char taken[STORE_ID_SIZE];
	char hollow[STORE_ID_SIZE];
	struct told good = { 0 };
	struct told bad[3] = { 0 };
	struct err e;

	store_make_id(taken);
	store_make_id(hollow);
	assert_int_equal(keep_file(s, taken, "first", &e), 0);
	assert_int_equal(keep_file(s, hollow, "gone", &e), 0);
	assert_int_equal(unlink(path_of(dir->path, hollow)), 0);
	for (int i = 0; i < GOOD; i++) {
		store_make_id(ids[i]);
		add_file(s, ids[i], ids[i], 0, &good);
		if (i == 20)
			add_file(s, taken, "second", 0, &bad[0]); /* its bytes have a place */
		if (i == 21)
			add_file(s, hollow, "again", 0, &bad[1]); /* its row has one */
		if (i == 22)
			store_remove_file(s, "6fa459ea-ee8a-4ca4-894e-db77e160355e", tell, &bad[2]);
	}
	wait_until_told(s, &good, GOOD);
	assert_int_equal(good.failures, 0);
	for (int i = 0; i < 3; i++) {
		wait_until_told(s, &bad[i], 1);
		assert_int_equal(bad[i].failures, 1);
	}
	assert_int_equal(bad[1].e.kind, ERR_INPUT);
	assert_true(has_file(s, taken, "first"));
	assert_int_equal(access(path_of(dir->path, hollow), F_OK), -1);
	for (int i = 0; i < GOOD; i++)
		assert_true(has_file(s, ids[i], ids[i]));
	/* The hollow one still counts as what its row says. */
	assert_int_equal(store_owner_bytes(s, "me"), GOOD * 36 + 5 + 4);
	store_close(s);
	assert_int_equal(count_bytes(dir->path), GOOD + 1);
}

/* A log that cannot grow, though the disk has room. */
static void fail_to_commit(const char *dir)
{
	enum { FILES = 10 };
	struct store *s = open_store(dir);
	struct rlimit none = { 0, RLIM_INFINITY };
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct store_file file = { .owner = "me", .name = "n" };
	char first[STORE_ID_SIZE];
	int blobs[FILES];
	struct told told = { 0 };
	struct err e;

	signal(SIGXFSZ, SIG_IGN);
	store_make_id(first);
	CHECK(keep_file(s, first, "first", &e) == 0);
	for (int i = 0; i < FILES; i++)
		blobs[i] = blob_of(s, "x", 1);
	setrlimit(RLIMIT_FSIZE, &none);
	for (int i = 0; i < FILES; i++) {
		store_make_id(file.id);
		store_add_file(s, &file, blobs[i], tell, &told);
	}
	store_remove_file(s, first, tell, &told);
	wait_until_told(s, &told, FILES + 1);
	setrlimit(RLIMIT_FSIZE, &all);
	CHECK(told.failures == FILES + 1);
	CHECK(told.e.kind == ERR_SYSTEM);
	CHECK(told.e.sys_errno != ENOSPC);
	CHECK(count_bytes(dir) == 1);
	CHECK(has_file(s, first, "first"));
	CHECK(store_owner_bytes(s, "me") == 5);
	store_make_id(file.id);
	CHECK(keep_file(s, file.id, "again", &e) == 0);
	store_close(s);
}

static void if_the_transaction_fails_all_are_told_and_nothing_is_left(void **state)
{
	const struct scratch *dir = *state;

	in_a_child(fail_to_commit, dir->path);
	/* None of it comes back. */
	store_close(open_store(dir->path));
	assert_int_equal(count_bytes(dir->path), 2);
}

static void opening_removes_bytes_without_rows_and_rows_without_bytes(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char kept[STORE_ID_SIZE];
	char hollow[STORE_ID_SIZE];
	char stray[STORE_ID_SIZE];
	struct store_file file;
	char name[64];
	struct err e;

	store_make_id(kept);
	store_make_id(hollow);
	store_make_id(stray);
	assert_int_equal(keep_file(s, kept, "kept", &e), 0);
	assert_int_equal(keep_file(s, hollow, "hollow", &e), 0);
	store_close(s);
	assert_int_equal(unlink(path_of(dir->path, hollow)), 0);
	snprintf(name, sizeof(name), "files/%.2s", stray);
	mkdirat(dir->fd, name, 0700);
	snprintf(name, sizeof(name), "files/%.2s/%s", stray, stray);
	write_file(dir->fd, name, "no row");
	snprintf(name, sizeof(name), "files/%.2s/nonsense", stray);
	write_file(dir->fd, name, "no id");
	snprintf(name, sizeof(name), "files/%s", stray);
	write_file(dir->fd, name, "not placed yet");

	s = open_store(dir->path);
	assert_true(has_file(s, kept, "kept"));
	assert_int_equal(store_find_file(s, hollow, NULL, &file, &e), -1);
	assert_int_equal(count_bytes(dir->path), 1);
	assert_int_equal(store_owner_bytes(s, "me"), 4);
	store_close(s);
}

static void what_expired_is_gone_at_once_and_its_bytes_when_asked(void **state)
{
	enum { EXPIRED = 1203 }; /* more than one transaction takes */
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store_file *files;
	struct told told = { 0 };
	char id[STORE_ID_SIZE];
	char later[STORE_ID_SIZE];
	size_t count;
	struct err e;

	store_make_id(later);
	add_file(s, later, "later", now_s() + 1000, &told);
	for (int i = 0; i < EXPIRED; i++) {
		store_make_id(id);
		add_file(s, id, "x", now_s() - 1, &told);
	}
	wait_until_told(s, &told, EXPIRED + 1);
	assert_int_equal(told.failures, 0);
	assert_false(has_file(s, id, "x"));
	assert_true(has_file(s, later, "later"));
	assert_int_equal(store_owner_bytes(s, "me"), 5);
	assert_int_equal(store_list_files(s, "me", &files, &count, &e), 0);
	assert_int_equal(count, 1);
	store_files_free(files, count);
	assert_int_equal(count_bytes(dir->path), EXPIRED + 1);
	store_expire_files(s);
	store_close(s);
	assert_int_equal(count_bytes(dir->path), 1);
}

static void files_expire_while_they_are_read(void **state)
{
	enum { FILES = 400 };
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct told told = { 0 };
	double first = now_s() + 0.1;
	double last = first + 0.5;
	char ids[FILES][STORE_ID_SIZE];
	struct err e;

	for (int i = 0; i < FILES; i++) {
		store_make_id(ids[i]);
		add_file(s, ids[i], ids[i], first + (last - first) * i / FILES, &told);
	}
	wait_until_told(s, &told, FILES);
	for (bool late = false; !late;) {
		struct store_file *files;
		size_t count;

		late = now_s() > last;
		store_expire_files(s);
		assert_int_equal(store_list_files(s, "me", &files, &count, &e), 0);
		for (size_t i = 0; i < count; i++) {
			char text[STORE_ID_SIZE] = "";
			int fd = store_open_file(s, files[i].id, &e);

			if (fd < 0) {
				assert_int_equal(e.kind, ERR_NOT_FOUND);
				continue;
			}
			assert_int_equal(read(fd, text, sizeof(text) - 1), 36);
			assert_string_equal(text, files[i].id);
			close(fd);
		}
		store_files_free(files, count);
		store_dispatch(s);
	}
	store_expire_files(s);
	while (store_queued(s))
		store_dispatch(s);
	assert_int_equal(store_owner_bytes(s, "me"), 0);
	assert_int_equal(count_bytes(dir->path), 0);
	store_close(s);
}

static void what_is_on_its_way_counts_as_stored(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	char id[STORE_ID_SIZE];
	struct told told = { 0 };

	store_make_id(id);
	assert_int_equal(store_owner_bytes(s, "me"), 0);
	add_file(s, id, "1234567", 0, &told);
	assert_int_equal(store_owner_bytes(s, "me"), 7);
	wait_until_told(s, &told, 1);
	assert_int_equal(store_owner_bytes(s, "me"), 7);
	add_file(s, id, "123", 0, &told); /* fails: it is taken */
	wait_until_told(s, &told, 2);
	assert_int_equal(told.failures, 1);
	assert_int_equal(store_owner_bytes(s, "me"), 7);
	store_close(s);
	s = open_store(dir->path);
	assert_int_equal(store_owner_bytes(s, "me"), 7);
	store_remove_file(s, id, tell, &told);
	wait_until_told(s, &told, 3);
	assert_int_equal(store_owner_bytes(s, "me"), 0);
	store_close(s);
}

struct chain {
	struct store *s;
	unsigned left;
	struct told told;
};

static void add_another(void *context, const struct err *e)
{
	struct chain *chain = context;
	struct store_file file = { .owner = "me", .name = "n" };

	tell(&chain->told, e);
	if (!chain->left)
		return;
	chain->left--;
	store_make_id(file.id);
	store_add_file(chain->s, &file, blob_of(chain->s, "x", 1), add_another, chain);
}

static void closing_writes_what_waits_and_what_is_asked_for_meanwhile(void **state)
{
	const struct scratch *dir = *state;
	struct chain chain = { .s = open_store(dir->path), .left = 5 };
	struct store_file file = { .owner = "me", .name = "n" };

	store_make_id(file.id);
	store_add_file(chain.s, &file, blob_of(chain.s, "x", 1), add_another, &chain);
	store_close(chain.s);
	assert_int_equal(chain.told.times, 6);
	assert_int_equal(chain.told.failures, 0);
	assert_int_equal(count_bytes(dir->path), 6);
}

/* As on a file system where no file can be without a name. */
static void store_without_tmpfile(const char *dir)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	unsigned flag = O_TMPFILE & ~(unsigned)O_DIRECTORY;
	char *large = malloc((3 << 20) + 1);
	struct store *s;
	char id[STORE_ID_SIZE];
	char other[STORE_ID_SIZE];
	struct err e;

	CHECK(filter && large);
	CHECK(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(openat), 1,
		      SCMP_A2(SCMP_CMP_MASKED_EQ, flag, flag)) == 0);
	CHECK(seccomp_load(filter) == 0);
	seccomp_release(filter);
	CHECK(open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) < 0 && errno == EOPNOTSUPP);
	memset(large, 'y', 3 << 20);
	large[3 << 20] = '\0';
	s = open_store(dir);
	close(blob_of(s, "never mind", 10));
	CHECK(count_bytes(dir) == 0);
	store_make_id(id);
	store_make_id(other);
	CHECK(keep_file(s, id, large, &e) == 0);
	CHECK(keep_file(s, other, "", &e) == 0);
	CHECK(keep_file(s, id, "again", &e) == -1);
	CHECK(has_file(s, id, large));
	CHECK(has_file(s, other, ""));
	store_close(s);
	CHECK(count_bytes(dir) == 2);
	free(large);
}

static void without_nameless_files_it_works_too(void **state)
{
	const struct scratch *dir = *state;

	in_a_child(store_without_tmpfile, dir->path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ids_have_one_form),
		TEST_IN_SCRATCH(a_file_is_there_once_it_was_told_and_after_opening_again),
		TEST_IN_SCRATCH(nobody_else_may_look),
		TEST_IN_SCRATCH(a_file_is_its_owners),
		TEST_IN_SCRATCH(names_are_kept_as_they_are_up_to_a_limit),
		TEST_IN_SCRATCH(a_removed_file_leaves_nothing_and_can_be_removed_once),
		TEST_IN_SCRATCH(a_blob_that_is_not_kept_leaves_nothing),
		TEST_IN_SCRATCH(files_are_listed_oldest_first),
		TEST_IN_SCRATCH(one_that_fails_fails_alone),
		TEST_IN_SCRATCH(if_the_transaction_fails_all_are_told_and_nothing_is_left),
		TEST_IN_SCRATCH(opening_removes_bytes_without_rows_and_rows_without_bytes),
		TEST_IN_SCRATCH(what_expired_is_gone_at_once_and_its_bytes_when_asked),
		TEST_IN_SCRATCH(files_expire_while_they_are_read),
		TEST_IN_SCRATCH(what_is_on_its_way_counts_as_stored),
		TEST_IN_SCRATCH(closing_writes_what_waits_and_what_is_asked_for_meanwhile),
		TEST_IN_SCRATCH(without_nameless_files_it_works_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
