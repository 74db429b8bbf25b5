#include "store_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- killed at any moment ---- */

/* All rounds together stay below STORE_LIST_MAX, however fast the machine is. */
enum { ROUNDS = 20, AT_ONCE = 24, ASKED_MAX = 450, REPORTS_MAX = ROUNDS * ASKED_MAX };

/* What the one that is killed tells before it asks for something ('?') and after it was told. */
struct report {
	char what; /* '+' is kept, '?' is about to be removed, '-' is removed, 's' session is put */
	char id[STORE_ID_SIZE];
};

struct victim {
	struct store *s;
	int report_fd;
	unsigned asked;
};

struct request {
	struct victim *victim;
	char what;
	char id[STORE_ID_SIZE];
	char *bytes;
};

/* From a few bytes to some pages, by the id alone. */
static char *bytes_for(const char *id)
{
	size_t size = (strtoul(id, NULL, 16) % 20000) + 1;
	char *bytes = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		bytes[i] = id[i % 36];
	bytes[size] = '\0';
	return bytes;
}

static void say(const struct victim *victim, char what, const char *id)
{
	struct report report = { .what = what };

	memcpy(report.id, id, STORE_ID_SIZE);
	CHECK(write(victim->report_fd, &report, sizeof(report)) == sizeof(report));
}

static void ask(struct victim *victim);

static void on_told(void *context, const struct err *e)
{
	struct request *request = context;

	CHECK(!e);
	say(request->victim, request->what, request->id);
	/* Every third goes again. */
	if (request->what == '+' && request->id[0] % 3 == 0) {
		say(request->victim, '?', request->id);
		request->what = '-';
		store_remove_file(request->victim->s, request->id, on_told, request);
		return;
	}
	ask(request->victim);
	free(request->bytes);
	free(request);
}

static void ask(struct victim *victim)
{
	struct request *request;

	if (victim->asked == ASKED_MAX)
		return;
	request = calloc(1, sizeof(*request));
	request->victim = victim;
	store_make_id(request->id);
	if (victim->asked++ % 8 == 0) {
		struct store_session session = { .owner = "me", .config_json = "{}" };

		request->what = 's';
		memcpy(session.id, request->id, STORE_ID_SIZE);
		store_put_session(victim->s, &session, on_told, request);
		return;
	}
	struct store_file file = { .owner = "me", .name = "n" };

	request->what = '+';
	request->bytes = bytes_for(request->id);
	memcpy(file.id, request->id, STORE_ID_SIZE);
	store_add_file(victim->s, &file, blob_of(victim->s, request->bytes, strlen(request->bytes)),
		on_told, request);
}

static void write_until_killed(const char *dir, int report_fd)
{
	struct victim victim = { .s = open_store(dir), .report_fd = report_fd };
	struct told never = { 0 };

	for (int i = 0; i < AT_ONCE; i++)
		ask(&victim);
	wait_until_told(victim.s, &never, 1);
}

/* What all rounds together must have left. */
struct expected {
	struct report *at;
	size_t count;
};

static void remember(struct expected *expected, const struct report *report)
{
	for (size_t i = expected->count; i-- > 0 && report->what != '+' && report->what != 's';) {
		if (strcmp(expected->at[i].id, report->id) == 0) {
			expected->at[i].what = report->what;
			return;
		}
	}
	assert_true(expected->count < REPORTS_MAX);
	expected->at[expected->count++] = *report;
}

static void kill_a_writer(const char *dir, struct expected *expected)
{
	struct timespec pause = { .tv_nsec = 1000 + rand() % 20000000 };
	struct report report;
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		write_until_killed(dir, ends[1]);
	close(ends[1]);
	assert_int_equal(read(ends[0], &report, sizeof(report)), sizeof(report));
	remember(expected, &report);
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (read(ends[0], &report, sizeof(report)) == sizeof(report))
		remember(expected, &report);
	close(ends[0]);
}

static void check_one(struct store *s, const struct report *report)
{
	char *bytes = bytes_for(report->id);
	struct store_session session;
	struct store_file file;
	struct err e;

	switch (report->what) {
	case '+':
		assert_true(has_file(s, report->id, bytes));
		break;
	case '-':
		assert_int_equal(store_find_file(s, report->id, NULL, &file, &e), -1);
		assert_int_equal(store_open_file(s, report->id, &e), -1);
		break;
	case 's':
		assert_int_equal(store_find_session(s, report->id, "me", &session, &e), 0);
		store_session_free(&session);
		break;
	default: /* it was not told what became of it: all of it is there, or nothing */
		if (store_find_file(s, report->id, NULL, &file, &e) == 0) {
			store_file_free(&file);
			assert_true(has_file(s, report->id, bytes));
		} else {
			assert_int_equal(store_open_file(s, report->id, &e), -1);
		}
	}
	free(bytes);
}

static void every_row_has_its_bytes(struct store *s, const char *dir)
{
	struct store_file *files;
	uint64_t sum = 0;
	size_t count;
	struct err e;

	assert_int_equal(store_list_files(s, "me", &files, &count, &e), 0);
	assert_true(count < STORE_LIST_MAX);
	assert_int_equal(count_bytes(dir), count);
	for (size_t i = 0; i < count; i++) {
		char *bytes = bytes_for(files[i].id);

		assert_true(has_file(s, files[i].id, bytes));
		sum += files[i].size_bytes;
		free(bytes);
	}
	assert_int_equal(store_owner_bytes(s, "me"), sum);
	store_files_free(files, count);
}

static void what_was_told_outlives_a_kill_at_any_moment(void **state)
{
	const struct scratch *dir = *state;
	struct expected expected = { .at = calloc(REPORTS_MAX, sizeof(struct report)) };

	srand((unsigned)time(NULL) ^ (unsigned)getpid());
	for (int round = 0; round < ROUNDS; round++) {
		struct store *s;

		kill_a_writer(dir->path, &expected);
		s = open_store(dir->path);
		for (size_t i = 0; i < expected.count; i++)
			check_one(s, &expected.at[i]);
		every_row_has_its_bytes(s, dir->path);
		store_close(s);
	}
	free(expected.at);
}

/* ---- a disk that is full ---- */

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written ? 0 : -1;
}

/* A disk of 2 MiB, which ends with the process. */
static bool mount_small(const char *dir)
{
	unsigned uid = geteuid();
	unsigned gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
		snprintf(map, sizeof(map), "0 %u 1", uid);
		CHECK(write_text("/proc/self/uid_map", map) == 0);
		CHECK(write_text("/proc/self/setgroups", "deny") == 0);
		snprintf(map, sizeof(map), "0 %u 1", gid);
		CHECK(write_text("/proc/self/gid_map", map) == 0);
	} else if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		return false;
	}
	return mount("small", dir, "tmpfs", 0, "size=2m,mode=700") == 0;
}

static void probe_mount(const char *dir)
{
	CHECK(mount_small(dir));
}

static bool can_mount(const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		probe_mount(dir);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void fill(const char *dir)
{
	static char page[4096];
	int fd = open(in(dir, "filler"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	while (write(fd, page, sizeof(page)) > 0)
		;
	CHECK(errno == ENOSPC);
	close(fd);
}

static char *text_of(size_t size)
{
	char *text = malloc(size + 1);

	memset(text, 'z', size);
	text[size] = '\0';
	return text;
}

static void live_on_a_small_disk(const char *dir)
{
	enum { FILES = 6, SIZE = 100000 };
	struct store_file file = { .owner = "me", .name = "n" };
	struct store_run run = { .owner = "me", .summary_json = "{}", .started_s = 1 };
	struct timespec a_while = { .tv_sec = 1, .tv_nsec = 300000000 };
	char ids[FILES][STORE_ID_SIZE];
	char *bytes = text_of(SIZE);
	struct told told = { 0 };
	struct told removed = { 0 };
	struct store *s;
	struct err e;
	int blob;

	CHECK(mount_small(dir));
	s = open_store(dir);
	for (int i = 0; i < FILES; i++) {
		store_make_id(ids[i]);
		CHECK(keep_file(s, ids[i], bytes, &e) == 0);
	}
	blob = blob_of(s, "few bytes", 9);
	fill(dir);
	CHECK(blob_of(s, bytes, SIZE) == -1 && errno == ENOSPC);

	/* There is no room for its row. */
	store_make_id(file.id);
	store_add_file(s, &file, blob, tell, &told);
	store_make_id(run.id);
	store_add_run(s, &run);
	wait_until_told(s, &told, 1);
	CHECK(told.failures == 1);
	CHECK(told.e.sys_errno == ENOSPC);
	CHECK(store_find_file(s, file.id, NULL, &file, &e) == -1);
	CHECK(count_bytes(dir) == FILES);
	CHECK(store_owner_bytes(s, "me") == (uint64_t)FILES * SIZE);
	for (int i = 0; i < FILES; i++)
		CHECK(has_file(s, ids[i], bytes));

	/* History waits for better times. */
	nanosleep(&a_while, NULL);
	CHECK(store_find_run(s, run.id, "me", &run, &e) == 0);
	store_run_free(&run);

	/* There is none to write down that room is given back, either. */
	fill(dir);
	store_remove_file(s, ids[0], tell, &removed);
	wait_until_told(s, &removed, 1);
	CHECK(removed.failures == 0);
	CHECK(!has_file(s, ids[0], bytes));
	CHECK(count_bytes(dir) == FILES - 1);

	store_make_id(ids[0]);
	CHECK(keep_file(s, ids[0], "there is room again", &e) == 0);
	CHECK(unlink(in(dir, "filler")) == 0);
	store_close(s);
	s = open_store(dir);
	CHECK(has_file(s, ids[0], "there is room again"));
	for (int i = 1; i < FILES; i++)
		CHECK(has_file(s, ids[i], bytes));
	CHECK(store_find_run(s, run.id, NULL, &run, &e) == 0);
	store_run_free(&run);
	store_close(s);
	free(bytes);
}

static void a_full_disk_harms_nothing(void **state)
{
	const struct scratch *dir = *state;

	if (!can_mount(dir->path))
		skip();
	in_a_child(live_on_a_small_disk, dir->path);
}

/* All sorts at once: what needs room fails, what gives some back does not. */
static void mix_on_a_full_disk(const char *dir)
{
	enum { FILES = 8 };
	char ids[FILES][STORE_ID_SIZE];
	char *bytes = text_of(50000);
	struct store_file file = { .owner = "me", .name = "n" };
	struct told removed = { 0 };
	struct told added = { 0 };
	int blobs[FILES];
	struct store *s;
	struct err e;

	CHECK(mount_small(dir));
	s = open_store(dir);
	for (int i = 0; i < FILES; i++) {
		store_make_id(ids[i]);
		CHECK(keep_file(s, ids[i], bytes, &e) == 0);
		blobs[i] = blob_of(s, "x", 1);
	}
	fill(dir);
	for (int i = 0; i < FILES; i++) {
		store_make_id(file.id);
		store_add_file(s, &file, blobs[i], tell, &added);
		store_remove_file(s, ids[i], tell, &removed);
	}
	wait_until_told(s, &added, FILES);
	wait_until_told(s, &removed, FILES);
	CHECK(removed.failures == 0);
	if (added.failures)
		CHECK(added.e.sys_errno == ENOSPC);
	CHECK(count_bytes(dir) == FILES - added.failures);
	CHECK(store_owner_bytes(s, "me") == FILES - added.failures);
	store_close(s);
	free(bytes);
}

static void on_a_full_disk_room_can_be_given_back(void **state)
{
	const struct scratch *dir = *state;

	if (!can_mount(dir->path))
		skip();
	in_a_child(mix_on_a_full_disk, dir->path);
}

static void begin_on_a_full_disk(const char *dir)
{
	struct store *s = NULL;
	struct err e;

	CHECK(mount_small(dir));
	fill(dir);
	CHECK(store_open(dir, &s, &e) == -1);
	CHECK(e.sys_errno == ENOSPC);
	CHECK(strstr(e.text, "No space left"));
	CHECK(unlink(in(dir, "filler")) == 0);
	store_close(open_store(dir));
}

static void a_store_that_cannot_be_made_for_lack_of_room_can_be_made_later(void **state)
{
	const struct scratch *dir = *state;

	if (!can_mount(dir->path))
		skip();
	in_a_child(begin_on_a_full_disk, dir->path);
}

/* ---- several processes ---- */

enum { KEYS = 40 };

static _Noreturn void fail_child(const char *why)
{
	fprintf(stderr, "%s\n", why);
	_exit(1);
}

static void add_keys(const char *dir, uint8_t who)
{
	struct store *s = NULL;
	struct err e;

	for (uint8_t i = 0; i < KEYS; i++) {
		uint8_t hash[32] = { who, i };
		char name[32];
		struct store_key key = { .name = name, .rights_json = "{}", .created_s = 1 };

		/* As the command line does: opens it for each. */
		if (store_open_keys(dir, &s, &e))
			fail_child(e.text);
		snprintf(name, sizeof(name), "key-%u-%u", who, i);
		store_make_id(key.id);
		CHECK(store_add_key(s, &key, hash, &e) == 0);
		if (i % 4 == 0)
			CHECK(store_revoke_key(s, i % 8 ? name : key.id, 2, &e) == 0);
		store_close(s);
	}
}

static void add_keys_1(const char *dir)
{
	add_keys(dir, 1);
}

static pid_t start(void (*body)(const char *dir), const char *dir)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		body(dir);
		_exit(0);
	}
	return pid;
}

static void add_keys_2(const char *dir)
{
	add_keys(dir, 2);
}

static void check_keys(struct store *s)
{
	for (uint8_t who = 1; who <= 2; who++) {
		for (uint8_t i = 0; i < KEYS; i++) {
			uint8_t hash[32] = { who, i };
			struct store_key key = { 0 };
			struct err e;

			assert_int_equal(store_find_key(s, hash, &key, &e), i % 4 ? 0 : -1);
			store_key_free(&key);
		}
	}
}

static void keys_are_changed_beside_a_service_that_writes(void **state)
{
	const struct scratch *dir = *state;
	struct told told = { 0 };
	unsigned asked = 0;
	struct store *s;
	pid_t children[2];
	int left = 2;

	/* Before there is a thread; and they make the tables at the same time. */
	children[0] = start(add_keys_1, dir->path);
	children[1] = start(add_keys_2, dir->path);
	s = open_store(dir->path);
	while (left) {
		char id[STORE_ID_SIZE];

		for (int i = 0; i < 2; i++) {
			int status;

			if (children[i] && waitpid(children[i], &status, WNOHANG) == children[i]) {
				assert_int_equal(status, 0);
				children[i] = 0;
				left--;
			}
		}
		store_make_id(id);
		add_file(s, id, "x", 0, &told);
		wait_until_told(s, &told, ++asked);
	}
	assert_int_equal(told.failures, 0);
	check_keys(s);
	store_close(s);
	assert_int_equal(count_bytes(dir->path), asked);
}

static void another_service_is_refused_and_harms_nothing(void **state)
{
	const struct scratch *dir = *state;
	struct store *s = open_store(dir->path);
	struct store *other = NULL;
	char id[STORE_ID_SIZE];
	struct err e;

	store_make_id(id);
	assert_int_equal(keep_file(s, id, "x", &e), 0);
	assert_int_equal(store_open(dir->path, &other, &e), -1);
	assert_non_null(strstr(e.text, "another service uses it"));
	assert_true(has_file(s, id, "x"));
	store_close(s);
}

/* ---- root beside another user's service ---- */

enum { NOBODY = 65534 };

static int to_service[2];
static int from_service[2];

static void serve_as_nobody(const char *dir)
{
	uint8_t hash[32] = { 7 };
	struct store_key key;
	struct store *s;
	char id[STORE_ID_SIZE];
	struct err e;
	char byte;

	CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	s = open_store(dir);
	CHECK(!store_has_keys(s) || store_find_key(s, hash, &key, &e) == -1);
	CHECK(write(from_service[1], "x", 1) == 1);
	CHECK(read(to_service[0], &byte, 1) == 1);
	CHECK(store_find_key(s, hash, &key, &e) == 0);
	store_key_free(&key);
	store_make_id(id);
	CHECK(keep_file(s, id, "x", &e) == 0);
	store_close(s);
	store_close(open_store(dir));
}

static void add_key_as_root(const char *dir, uint8_t which)
{
	uint8_t hash[32] = { which };
	char name[16];
	struct store_key key = { .name = name, .rights_json = "{}" };
	struct store *s = NULL;
	struct err e;

	snprintf(name, sizeof(name), "root's %u", which);
	store_make_id(key.id);
	assert_int_equal(store_open_keys(dir, &s, &e), 0);
	assert_int_equal(store_add_key(s, &key, hash, &e), 0);
	store_close(s);
}

static void root_can_change_the_keys_of_another_users_service(void **state)
{
	const struct scratch *dir = *state;
	pid_t pid;
	int status;
	char byte;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(dir->path, NOBODY, NOBODY), 0);
	/* Before its first start: what root makes must be the other's. */
	add_key_as_root(dir->path, 6);
	assert_int_equal(pipe2(to_service, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from_service, O_CLOEXEC), 0);
	pid = start(serve_as_nobody, dir->path);
	close(from_service[1]);
	assert_int_equal(read(from_service[0], &byte, 1), 1);
	add_key_as_root(dir->path, 7);
	assert_int_equal(write(to_service[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(from_service[0]);
	close(to_service[0]);
	close(to_service[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(what_was_told_outlives_a_kill_at_any_moment),
		TEST_IN_SCRATCH(a_full_disk_harms_nothing),
		TEST_IN_SCRATCH(on_a_full_disk_room_can_be_given_back),
		TEST_IN_SCRATCH(a_store_that_cannot_be_made_for_lack_of_room_can_be_made_later),
		TEST_IN_SCRATCH(keys_are_changed_beside_a_service_that_writes),
		TEST_IN_SCRATCH(another_service_is_refused_and_harms_nothing),
		TEST_IN_SCRATCH(root_can_change_the_keys_of_another_users_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
