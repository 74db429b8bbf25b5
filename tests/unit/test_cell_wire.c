#include "wire_messages.h"

#include "base/err.h"
#include "base/own.h"
#include "base/path.h"
#include "wire/cell_wire.h"

#include <string.h>

static struct frame_out out;
static struct msg_exec exec;

static struct frame_in read_back(void)
{
	return (struct frame_in){ .at = out.bytes + 1, .end = out.bytes + out.len };
}

/* Reads all of it, so that the sanitizer can object. */
static unsigned touch(const uint8_t *data, size_t len)
{
	unsigned sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += data[i];
	return sum;
}

static void put_some_put(struct frame_out *f)
{
	put_put(f, &(struct msg_put){
			   .path = "dir/name",
			   .kind = FILE_REGULAR,
			   .append = 1,
			   .mode = 0754,
			   .data = (const uint8_t *)"a\0b",
			   .data_len = 3,
		   });
}

static bool get_some_put(struct frame_in *f)
{
	struct msg_put m;

	return get_put(f, &m) && touch(m.data, m.data_len) + strlen(m.path) > 0;
}

static void expect_put(struct frame_in *f)
{
	struct msg_put m;

	assert_true(get_put(f, &m));
	assert_string_equal(m.path, "dir/name");
	assert_int_equal(m.kind, FILE_REGULAR);
	assert_int_equal(m.append, 1);
	assert_int_equal(m.mode, 0754);
	assert_int_equal(m.data_len, 3);
	assert_memory_equal(m.data, "a\0b", 3);
}

static struct msg_exec *some_exec(void)
{
	exec = (struct msg_exec){
		.wall_ms = 1,
		.cpu_ms = 2,
		.file_bytes = 3,
		.open_files = 4,
		.processes = 5,
		.output_bytes = 6,
		.memory_bytes = 7,
		.stdin_kind = STDIN_STREAM,
		.list_when_done = 1,
		.trace = 1,
		.warm = EXEC_WARM_RUN,
		.argv_count = 2,
		.env_count = 1,
		.words = { "/bin/sh", "", NULL, "A=b", NULL },
	};
	return &exec;
}

static void put_some_exec(struct frame_out *f)
{
	put_exec(f, some_exec());
}

static bool get_some_exec(struct frame_in *f)
{
	if (!get_exec(f, &exec))
		return false;
	for (uint32_t i = 0; i < exec.argv_count; i++)
		assert_true(strlen(exec_argv(&exec)[i]) < FRAME_MAX);
	for (uint32_t i = 0; i < exec.env_count; i++)
		assert_true(strlen(exec_env(&exec)[i]) < FRAME_MAX);
	assert_null(exec_argv(&exec)[exec.argv_count]);
	assert_null(exec_env(&exec)[exec.env_count]);
	return true;
}

static void expect_exec(struct frame_in *f)
{
	assert_true(get_exec(f, &exec));
	assert_int_equal(exec.wall_ms, 1);
	assert_int_equal(exec.cpu_ms, 2);
	assert_int_equal(exec.file_bytes, 3);
	assert_int_equal(exec.open_files, 4);
	assert_int_equal(exec.processes, 5);
	assert_int_equal(exec.output_bytes, 6);
	assert_int_equal(exec.stdin_kind, STDIN_STREAM);
	assert_int_equal(exec.memory_bytes, 7);
	assert_int_equal(exec.list_when_done, 1);
	assert_int_equal(exec.trace, 1);
	assert_int_equal(exec.warm, EXEC_WARM_RUN);
	assert_int_equal(exec.argv_count, 2);
	assert_string_equal(exec_argv(&exec)[0], "/bin/sh");
	assert_string_equal(exec_argv(&exec)[1], "");
	assert_null(exec_argv(&exec)[2]);
	assert_int_equal(exec.env_count, 1);
	assert_string_equal(exec_env(&exec)[0], "A=b");
	assert_null(exec_env(&exec)[1]);
}

static void put_some_data(struct frame_out *f)
{
	put_data(f, CELL_STDIN, &(struct msg_data){ (const uint8_t *)"in\0put", 6 });
}

static bool get_some_data(struct frame_in *f)
{
	struct msg_data m;

	return get_data(f, &m) && touch(m.data, m.data_len) + 1 > 0;
}

static void expect_data(struct frame_in *f)
{
	struct msg_data m;

	assert_true(get_data(f, &m));
	assert_int_equal(m.data_len, 6);
	assert_memory_equal(m.data, "in\0put", 6);
}

static void put_some_bare(struct frame_out *f)
{
	put_bare(f, CELL_LIST);
}

static void expect_bare(struct frame_in *f)
{
	assert_true(get_bare(f));
}

static void put_some_get(struct frame_out *f)
{
	put_get(f, &(struct msg_get){ ".hidden/file\n", 7ULL << 33 });
}

static bool get_some_get(struct frame_in *f)
{
	struct msg_get m;

	return get_get(f, &m) && strlen(m.path) < FRAME_MAX;
}

static void expect_get(struct frame_in *f)
{
	struct msg_get m;

	assert_true(get_get(f, &m));
	assert_string_equal(m.path, ".hidden/file\n");
	assert_true(m.max_bytes == 7ULL << 33);
}

static void put_some_remove(struct frame_out *f)
{
	put_remove(f, &(struct msg_remove){ "dir/gone", 1 });
}

static bool get_some_remove(struct frame_in *f)
{
	struct msg_remove m;

	return get_remove(f, &m) && strlen(m.path) < FRAME_MAX;
}

static void expect_remove(struct frame_in *f)
{
	struct msg_remove m;

	assert_true(get_remove(f, &m));
	assert_string_equal(m.path, "dir/gone");
	assert_int_equal(m.is_code, 1);
}

static void put_some_served(struct frame_out *f)
{
	put_served(f, &(struct msg_served){ ERR_LIMIT, 28, "write 'x': No space" });
}

static bool get_some_served(struct frame_in *f)
{
	struct msg_served m;

	return get_served(f, &m) && strlen(m.text) < FRAME_MAX;
}

static void expect_served(struct frame_in *f)
{
	struct msg_served m;

	assert_true(get_served(f, &m));
	assert_int_equal(m.kind, ERR_LIMIT);
	assert_int_equal(m.error, 28);
	assert_string_equal(m.text, "write 'x': No space");
}

static void put_some_output(struct frame_out *f)
{
	put_output(f, &(struct msg_output){ STREAM_STDERR, (const uint8_t *)"\xff\0", 2 });
}

static bool get_some_output(struct frame_in *f)
{
	struct msg_output m;

	return get_output(f, &m) && touch(m.data, m.data_len) + 1 > 0;
}

static void expect_output(struct frame_in *f)
{
	struct msg_output m;

	assert_true(get_output(f, &m));
	assert_int_equal(m.stream, STREAM_STDERR);
	assert_int_equal(m.data_len, 2);
	assert_memory_equal(m.data, "\xff\0", 2);
}

static void put_some_exited(struct frame_out *f)
{
	put_exited(f, &(struct msg_exited){
			      .ended_by = ENDED_BY_FAILURE,
			      .wait_status = 0x8b,
			      .wall_us = 1ULL << 33,
			      .cpu_us = 2,
			      .max_rss_bytes = 3ULL << 33,
			      .processes = 4,
			      .disk_full = 1,
			      .warm = 1,
			      .nothing_new = 1,
			      .waited = 1,
			      .kept = 1,
			      .vm = { 5ULL << 33, 6, "io_setup" },
			      .out = { (const uint8_t *)"o", (const uint8_t *)"er" },
			      .out_len = { 1, 2 },
			      .failed_put = ERR_LIMIT,
			      .failed_put_as = 28,
			      .text = "start '/x': No such file",
		      });
}

static bool get_some_exited(struct frame_in *f)
{
	struct msg_exited m;

	return get_exited(f, &m) && strlen(m.text) < FRAME_MAX;
}

static void expect_exited(struct frame_in *f)
{
	struct msg_exited m;

	assert_true(get_exited(f, &m));
	assert_int_equal(m.ended_by, ENDED_BY_FAILURE);
	assert_int_equal(m.wait_status, 0x8b);
	assert_true(m.wall_us == 1ULL << 33);
	assert_int_equal(m.cpu_us, 2);
	assert_true(m.max_rss_bytes == 3ULL << 33);
	assert_int_equal(m.processes, 4);
	assert_int_equal(m.disk_full, 1);
	assert_int_equal(m.warm, 1);
	assert_int_equal(m.nothing_new, 1);
	assert_int_equal(m.waited, 1);
	assert_int_equal(m.kept, 1);
	assert_true(m.vm.exits == 5ULL << 33);
	assert_int_equal(m.vm.unknown_calls, 6);
	assert_string_equal(m.vm.missing_call, "io_setup");
	assert_int_equal(m.out_len[0], 1);
	assert_int_equal(m.out_len[1], 2);
	assert_memory_equal(m.out[1], "er", 2);
	assert_int_equal(m.failed_put, ERR_LIMIT);
	assert_int_equal(m.failed_put_as, 28);
	assert_string_equal(m.text, "start '/x': No such file");
}

static void put_some_file(struct frame_out *f)
{
	put_file(f, &(struct msg_file){
			    .path = "out/plot.png",
			    .kind = FILE_SYMLINK,
			    .generated = 1,
			    .mode = 04755,
			    .size_bytes = 5ULL << 33,
			    .target = "../a b",
		    });
}

static bool get_some_file(struct frame_in *f)
{
	struct msg_file m;

	return get_file(f, &m) && strlen(m.path) < FRAME_MAX;
}

static void expect_file(struct frame_in *f)
{
	struct msg_file m;

	assert_true(get_file(f, &m));
	assert_string_equal(m.path, "out/plot.png");
	assert_int_equal(m.kind, FILE_SYMLINK);
	assert_string_equal(m.target, "../a b");
	assert_int_equal(m.generated, 1);
	assert_int_equal(m.mode, 04755);
	assert_true(m.size_bytes == 5ULL << 33);
}

static void put_some_listed(struct frame_out *f)
{
	put_listed(f, &(struct msg_listed){ 1 });
}

static bool get_some_listed(struct frame_in *f)
{
	struct msg_listed m;

	return get_listed(f, &m);
}

static void expect_listed(struct frame_in *f)
{
	struct msg_listed m;

	assert_true(get_listed(f, &m));
	assert_int_equal(m.incomplete, 1);
}

static void put_some_got(struct frame_out *f)
{
	put_got(f, &(struct msg_got){ 40 });
}

static bool get_some_got(struct frame_in *f)
{
	struct msg_got m;

	return get_got(f, &m);
}

static void expect_got(struct frame_in *f)
{
	struct msg_got m;

	assert_true(get_got(f, &m));
	assert_int_equal(m.error, 40);
}

static const struct message messages[] = {
	{ "put", CELL_PUT, put_some_put, get_some_put, expect_put },
	{ "exec", CELL_EXEC, put_some_exec, get_some_exec, expect_exec },
	{ "data", CELL_STDIN, put_some_data, get_some_data, expect_data },
	{ "bare", CELL_LIST, put_some_bare, get_bare, expect_bare },
	{ "get", CELL_GET, put_some_get, get_some_get, expect_get },
	{ "remove", CELL_REMOVE, put_some_remove, get_some_remove, expect_remove },
	{ "output", CELL_OUTPUT, put_some_output, get_some_output, expect_output },
	{ "exited", CELL_EXITED, put_some_exited, get_some_exited, expect_exited },
	{ "file", CELL_FILE, put_some_file, get_some_file, expect_file },
	{ "listed", CELL_LISTED, put_some_listed, get_some_listed, expect_listed },
	{ "got", CELL_GOT, put_some_got, get_some_got, expect_got },
	{ "served", CELL_SERVED, put_some_served, get_some_served, expect_served },
};

static void every_cell_message_comes_back_as_it_was(void **state)
{
	(void)state;
	every_message_comes_back_as_it_was(messages, COUNT(messages));
}

static void every_cut_or_longer_cell_message_is_refused(void **state)
{
	(void)state;
	every_cut_or_longer_message_is_refused(messages, COUNT(messages));
}

static void no_changed_byte_in_a_cell_message_does_harm(void **state)
{
	(void)state;
	no_changed_byte_does_harm(messages, COUNT(messages));
}

static void every_message_with_a_path_refuses_those_that_lead_out(void **state)
{
	static const char *const wrong[] = { "", "/etc/passwd", "../x", "a/../../x", "a//b", "a/",
		"." };

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct msg_put put = { .path = wrong[i], .kind = FILE_REGULAR };
		struct msg_file file = { .path = wrong[i], .kind = FILE_REGULAR };
		struct msg_get get = { .path = wrong[i] };
		struct msg_remove gone = { .path = wrong[i] };
		struct frame_in in;

		put_put(&out, &put);
		in = read_back();
		assert_false(get_put(&in, &put));
		put_file(&out, &file);
		in = read_back();
		assert_false(get_file(&in, &file));
		put_get(&out, &get);
		in = read_back();
		assert_false(get_get(&in, &get));
		put_remove(&out, &gone);
		in = read_back();
		assert_false(get_remove(&in, &gone));
	}
}

static void only_symlinks_lead_somewhere_and_not_endlessly(void **state)
{
	char target[PATH_MAX_BYTES + 2];

	(void)state;
	for (int kind = FILE_REGULAR; kind <= FILE_OTHER; kind++) {
		struct msg_file file = { .path = "p", .kind = (uint8_t)kind, .target = "x" };
		struct frame_in in;

		put_file(&out, &file);
		in = read_back();
		assert_int_equal(get_file(&in, &file), kind == FILE_SYMLINK);
	}
	memset(target, 'x', sizeof(target));
	for (size_t len = PATH_MAX_BYTES; len <= PATH_MAX_BYTES + 1; len++) {
		struct msg_file file = { .path = "p", .kind = FILE_SYMLINK, .target = target };
		struct frame_in in;

		target[PATH_MAX_BYTES] = 'x';
		target[len] = '\0';
		put_file(&out, &file);
		in = read_back();
		assert_int_equal(get_file(&in, &file), len == PATH_MAX_BYTES);
	}
}

static void only_known_kinds_streams_and_ends_are_taken(void **state)
{
	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		struct msg_put put = { .path = "p", .kind = (uint8_t)value };
		struct msg_file file = { .path = "p", .kind = (uint8_t)value };
		struct msg_output output = { .stream = (uint8_t)value };
		struct msg_exited exited = { .ended_by = (uint8_t)value, .text = "" };
		struct msg_served served = { .kind = (uint8_t)value, .text = "" };
		struct frame_in in;

		put_put(&out, &put);
		in = read_back();
		assert_int_equal(
			get_put(&in, &put), value >= FILE_REGULAR && value <= FILE_SYMLINK);
		put_file(&out, &file);
		in = read_back();
		assert_int_equal(
			get_file(&in, &file), value >= FILE_REGULAR && value <= FILE_OTHER);
		put_output(&out, &output);
		in = read_back();
		assert_int_equal(
			get_output(&in, &output), value == STREAM_STDOUT || value == STREAM_STDERR);
		put_exited(&out, &exited);
		in = read_back();
		assert_int_equal(get_exited(&in, &exited), value < ENDED_BY_COUNT);
		put_served(&out, &served);
		in = read_back();
		assert_int_equal(get_served(&in, &served), value <= ERR_GONE);
		some_exec()->stdin_kind = (uint8_t)value;
		put_exec(&out, &exec);
		in = read_back();
		assert_int_equal(
			get_exec(&in, &exec), value == STDIN_NULL || value == STDIN_STREAM);
	}
}

static void files_are_put_without_setuid_and_other_special_bits(void **state)
{
	static const struct {
		uint32_t mode;
		bool in_put;
		bool in_file;
	} rows[] = {
		{ 0, true, true },
		{ 0777, true, true },
		{ 01000, false, true },
		{ 02755, false, true },
		{ 04755, false, true },
		{ 010000, false, false },
		{ 0100644, false, false },
		{ UINT32_MAX, false, false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct msg_put put = { .path = "p", .kind = FILE_REGULAR, .mode = rows[i].mode };
		struct msg_file file = { .path = "p", .kind = FILE_REGULAR, .mode = rows[i].mode };
		struct frame_in in;

		put_put(&out, &put);
		in = read_back();
		assert_int_equal(get_put(&in, &put), rows[i].in_put);
		put_file(&out, &file);
		in = read_back();
		assert_int_equal(get_file(&in, &file), rows[i].in_file);
	}
}

/* An EXEC frame with these counts and as many words, whether they fit the struct or not. */
static bool takes_words(uint32_t argv_count, uint32_t env_count)
{
	struct frame_in in;
	bool taken;

	frame_begin(&out, CELL_EXEC);
	for (int i = 0; i < 7; i++)
		frame_put_u64(&out, 0);
	frame_put_u8(&out, STDIN_NULL);
	frame_put_u8(&out, 0);
	frame_put_u8(&out, 0);
	frame_put_u8(&out, EXEC_COLD);
	frame_put_u32(&out, argv_count);
	for (uint32_t i = 0; i < argv_count && i < 2000; i++)
		frame_put_string(&out, "w");
	frame_put_u32(&out, env_count);
	for (uint32_t i = 0; i < env_count && i < 2000; i++)
		frame_put_string(&out, "e");
	assert_false(out.overflow);
	in = read_back();
	memset(&exec, 0, sizeof(exec));
	taken = get_exec(&in, &exec);
	if (taken) {
		assert_null(exec_argv(&exec)[argv_count]);
		assert_null(exec_env(&exec)[env_count]);
	}
	return taken;
}

static void words_of_a_command_are_counted_and_at_least_one(void **state)
{
	(void)state;
	assert_true(takes_words(1, 0));
	assert_true(takes_words(1, 1));
	assert_false(takes_words(0, 0));
	assert_false(takes_words(0, 1));
	assert_true(takes_words(EXEC_WORDS_MAX - 2, 0));
	assert_false(takes_words(EXEC_WORDS_MAX - 1, 0));
	assert_false(takes_words(EXEC_WORDS_MAX, 0));
	assert_true(takes_words(1, EXEC_WORDS_MAX - 3));
	assert_false(takes_words(1, EXEC_WORDS_MAX - 2));
	assert_true(takes_words(500, EXEC_WORDS_MAX - 502));
	assert_false(takes_words(500, EXEC_WORDS_MAX - 501));
	assert_false(takes_words(UINT32_MAX, 0));
	assert_false(takes_words(1, UINT32_MAX));
}

static void the_largest_piece_of_a_file_fits_beside_the_longest_path(void **state)
{
	static uint8_t data[FRAME_DATA_MAX];
	static char path[4096];
	struct msg_put m = {
		.path = path,
		.kind = FILE_REGULAR,
		.data = data,
		.data_len = sizeof(data),
	};
	struct frame_in in;

	(void)state;
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 200 == 199 ? '/' : 'p';
	put_put(&out, &m);
	assert_false(out.overflow);
	in = read_back();
	assert_true(get_put(&in, &m));
	assert_int_equal(m.data_len, sizeof(data));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_cell_message_comes_back_as_it_was),
		TEST(every_cut_or_longer_cell_message_is_refused),
		TEST(no_changed_byte_in_a_cell_message_does_harm),
		TEST(every_message_with_a_path_refuses_those_that_lead_out),
		TEST(only_symlinks_lead_somewhere_and_not_endlessly),
		TEST(only_known_kinds_streams_and_ends_are_taken),
		TEST(files_are_put_without_setuid_and_other_special_bits),
		TEST(words_of_a_command_are_counted_and_at_least_one),
		TEST(the_largest_piece_of_a_file_fits_beside_the_longest_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
