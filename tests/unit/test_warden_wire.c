#include "wire_messages.h"

#include "base/own.h"
#include "wire/warden_wire.h"

#include <string.h>

static struct frame_out out;

static struct frame_in read_back(void)
{
	return (struct frame_in){ .at = out.bytes + 1, .end = out.bytes + out.len };
}

/* Different values within their bounds in every place. */
static struct limits some_limits(void)
{
	struct limits l;

	for (int i = 0; i < LIMIT_COUNT; i++)
		l.at[i] = limit_table[i].least + (uint64_t)i;
	l.at[LIMIT_CPUS_MILLI] = 0;
	return l;
}

static void expect_limits(const struct limits *l)
{
	struct limits want = some_limits();

	assert_memory_equal(l, &want, sizeof(want));
}

static const struct usage some_usage = { 1ULL << 40, 2ULL << 40, 3, 4 };

static void expect_usage_fields(const struct usage *u)
{
	assert_memory_equal(u, &some_usage, sizeof(some_usage));
}

static void put_some_path(struct frame_out *f)
{
	put_path(f, WARDEN_ALLOW, &(struct msg_path){ "/opt/venv" });
}

static bool get_some_path(struct frame_in *f)
{
	struct msg_path m;

	return get_path(f, &m) && strlen(m.path) < FRAME_MAX;
}

static void expect_path(struct frame_in *f)
{
	struct msg_path m;

	assert_true(get_path(f, &m));
	assert_string_equal(m.path, "/opt/venv");
}

static struct msg_make some_make(void)
{
	return (struct msg_make){
		.cell = 0x01020304,
		.network = NETWORK_NONE,
		.explicit_limits = LIMIT_BIT(LIMIT_MEMORY_BYTES) | LIMIT_BIT(LIMIT_CPUS_MILLI),
		.explicit_network = 1,
		.limits = some_limits(),
		.binds_count = 2,
		.binds = { "/one", "/two" },
		.mounts_count = 2,
		.mounts = { { "/data/sets", "sets" }, { "/b", "B_2.x-y" } },
	};
}

static void put_some_make(struct frame_out *f)
{
	struct msg_make m = some_make();

	put_make(f, &m);
}

static bool get_some_make(struct frame_in *f)
{
	struct msg_make m;

	if (!get_make(f, &m))
		return false;
	for (uint32_t i = 0; i < m.binds_count; i++)
		assert_true(strlen(m.binds[i]) < FRAME_MAX);
	for (uint32_t i = 0; i < m.mounts_count; i++)
		assert_true(
			strlen(m.mounts[i].source) < FRAME_MAX && strlen(m.mounts[i].name) <= 255);
	return true;
}

static void expect_make(struct frame_in *f)
{
	struct msg_make m;

	assert_true(get_make(f, &m));
	assert_int_equal(m.cell, 0x01020304);
	assert_int_equal(m.network, NETWORK_NONE);
	assert_int_equal(
		m.explicit_limits, LIMIT_BIT(LIMIT_MEMORY_BYTES) | LIMIT_BIT(LIMIT_CPUS_MILLI));
	assert_int_equal(m.explicit_network, 1);
	expect_limits(&m.limits);
	assert_int_equal(m.binds_count, 2);
	assert_string_equal(m.binds[0], "/one");
	assert_string_equal(m.binds[1], "/two");
	assert_int_equal(m.mounts_count, 2);
	assert_string_equal(m.mounts[0].source, "/data/sets");
	assert_string_equal(m.mounts[0].name, "sets");
	assert_string_equal(m.mounts[1].source, "/b");
	assert_string_equal(m.mounts[1].name, "B_2.x-y");
}

static void put_some_limit(struct frame_out *f)
{
	put_limit(f, &(struct msg_limit){ .cell = 77, .limits = some_limits() });
}

static bool get_some_limit(struct frame_in *f)
{
	struct msg_limit m;

	return get_limit(f, &m);
}

static void expect_limit(struct frame_in *f)
{
	struct msg_limit m;

	assert_true(get_limit(f, &m));
	assert_int_equal(m.cell, 77);
	expect_limits(&m.limits);
}

static void put_some_order(struct frame_out *f)
{
	put_order(f, &(struct msg_order){ .cell = 5, .order = ORDER_CANCEL });
}

static bool get_some_order(struct frame_in *f)
{
	struct msg_order m;

	return get_order(f, &m);
}

static void expect_order(struct frame_in *f)
{
	struct msg_order m;

	assert_true(get_order(f, &m));
	assert_int_equal(m.cell, 5);
	assert_int_equal(m.order, ORDER_CANCEL);
}

static void put_some_cell(struct frame_out *f)
{
	put_cell(f, WARDEN_KILL, &(struct msg_cell){ 0xffffffff });
}

static bool get_some_cell(struct frame_in *f)
{
	struct msg_cell m;

	return get_cell(f, &m);
}

static void expect_cell(struct frame_in *f)
{
	struct msg_cell m;

	assert_true(get_cell(f, &m));
	assert_int_equal(m.cell, 0xffffffff);
}

static void put_some_nothing(struct frame_out *f)
{
	put_nothing(f, WARDEN_SEAL);
}

static void expect_nothing(struct frame_in *f)
{
	assert_true(get_nothing(f));
}

static void put_some_made(struct frame_out *f)
{
	put_made(f, &(struct msg_made){
			    .cell = 9,
			    .not_enforced = LIMIT_BIT(LIMIT_DISK_BYTES),
			    .soft = LIMIT_BIT(LIMIT_MEMORY_BYTES),
			    .network_not_enforced = 1,
			    .workspace = "/workspace",
		    });
}

static bool get_some_made(struct frame_in *f)
{
	struct msg_made m;

	return get_made(f, &m) && strlen(m.workspace) < FRAME_MAX;
}

static void expect_made(struct frame_in *f)
{
	struct msg_made m;

	assert_true(get_made(f, &m));
	assert_int_equal(m.cell, 9);
	assert_int_equal(m.not_enforced, LIMIT_BIT(LIMIT_DISK_BYTES));
	assert_int_equal(m.soft, LIMIT_BIT(LIMIT_MEMORY_BYTES));
	assert_int_equal(m.network_not_enforced, 1);
	assert_string_equal(m.workspace, "/workspace");
}

static void put_some_usage(struct frame_out *f)
{
	put_usage(f, &(struct msg_usage){ .cell = 8, .usage = some_usage });
}

static bool get_some_usage(struct frame_in *f)
{
	struct msg_usage m;

	return get_usage(f, &m);
}

static void expect_usage(struct frame_in *f)
{
	struct msg_usage m;

	assert_true(get_usage(f, &m));
	assert_int_equal(m.cell, 8);
	expect_usage_fields(&m.usage);
}

static void put_some_gone(struct frame_out *f)
{
	put_gone(f, &(struct msg_gone){
			    .cell = 3,
			    .failed = 1,
			    .err_kind = ERR_UNAVAILABLE,
			    .text = "no cgroup",
			    .usage = some_usage,
		    });
}

static bool get_some_gone(struct frame_in *f)
{
	struct msg_gone m;

	return get_gone(f, &m) && strlen(m.text) < FRAME_MAX;
}

static void expect_gone(struct frame_in *f)
{
	struct msg_gone m;

	assert_true(get_gone(f, &m));
	assert_int_equal(m.cell, 3);
	assert_int_equal(m.failed, 1);
	assert_int_equal(m.err_kind, ERR_UNAVAILABLE);
	assert_string_equal(m.text, "no cgroup");
	expect_usage_fields(&m.usage);
}

static void put_some_checked(struct frame_out *f)
{
	put_checked(f, &(struct msg_checked){
			       .name = "landlock",
			       .state = CHECK_WEAK,
			       .needed = 1,
			       .detail = "abi 3",
			       .fix = "a newer kernel",
		       });
}

static bool get_some_checked(struct frame_in *f)
{
	struct msg_checked m;

	return get_checked(f, &m) && strlen(m.name) + strlen(m.detail) + strlen(m.fix) < FRAME_MAX;
}

static void expect_checked(struct frame_in *f)
{
	struct msg_checked m;

	assert_true(get_checked(f, &m));
	assert_string_equal(m.name, "landlock");
	assert_int_equal(m.state, CHECK_WEAK);
	assert_int_equal(m.needed, 1);
	assert_string_equal(m.detail, "abi 3");
	assert_string_equal(m.fix, "a newer kernel");
}

static const struct message messages[] = {
	{ "path", WARDEN_ALLOW, put_some_path, get_some_path, expect_path },
	{ "make", WARDEN_MAKE, put_some_make, get_some_make, expect_make },
	{ "limit", WARDEN_LIMIT, put_some_limit, get_some_limit, expect_limit },
	{ "order", WARDEN_ORDER, put_some_order, get_some_order, expect_order },
	{ "cell", WARDEN_KILL, put_some_cell, get_some_cell, expect_cell },
	{ "nothing", WARDEN_SEAL, put_some_nothing, get_nothing, expect_nothing },
	{ "made", WARDEN_MADE, put_some_made, get_some_made, expect_made },
	{ "usage", WARDEN_USAGE, put_some_usage, get_some_usage, expect_usage },
	{ "gone", WARDEN_GONE, put_some_gone, get_some_gone, expect_gone },
	{ "checked", WARDEN_CHECKED, put_some_checked, get_some_checked, expect_checked },
};

static void every_warden_message_comes_back_as_it_was(void **state)
{
	(void)state;
	every_message_comes_back_as_it_was(messages, COUNT(messages));
}

static void every_cut_or_longer_warden_message_is_refused(void **state)
{
	(void)state;
	every_cut_or_longer_message_is_refused(messages, COUNT(messages));
}

static void no_changed_byte_in_a_warden_message_does_harm(void **state)
{
	(void)state;
	no_changed_byte_does_harm(messages, COUNT(messages));
}

static bool make_is_taken(const struct msg_make *m)
{
	struct frame_in in;
	struct msg_make got;

	put_make(&out, m);
	assert_false(out.overflow);
	in = read_back();
	return get_make(&in, &got);
}

static void limits_outside_the_table_are_refused_and_zero_means_none(void **state)
{
	(void)state;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		struct msg_make m = some_make();

		m.limits.at[i] = 0;
		assert_true(make_is_taken(&m));
		m.limits.at[i] = limit_table[i].most;
		assert_true(make_is_taken(&m));
		m.limits.at[i] = limit_table[i].most + 1;
		assert_false(make_is_taken(&m));
		m.limits.at[i] = UINT64_MAX;
		assert_false(make_is_taken(&m));
		if (limit_table[i].least > 1) {
			m.limits.at[i] = limit_table[i].least - 1;
			assert_false(make_is_taken(&m));
		}
	}
}

static void a_cell_has_at_most_32_binds(void **state)
{
	struct msg_make m = some_make();
	struct msg_make got;
	struct frame_in in;

	(void)state;
	m.binds_count = MAKE_BINDS_MAX;
	for (unsigned i = 0; i < MAKE_BINDS_MAX; i++)
		m.binds[i] = "/x";
	assert_true(make_is_taken(&m));
	/* One more than there is room for in the struct: by hand, since put_make() has none. */
	m.binds_count = m.mounts_count = 0;
	put_make(&out, &m);
	out.len -= 8;
	frame_put_u32(&out, MAKE_BINDS_MAX + 1);
	for (unsigned i = 0; i <= MAKE_BINDS_MAX; i++)
		frame_put_string(&out, "/x");
	frame_put_u32(&out, 0);
	in = read_back();
	assert_false(get_make(&in, &got));
	put_make(&out, &m);
	out.len -= 8;
	frame_put_u32(&out, UINT32_MAX);
	frame_put_u32(&out, 0);
	in = read_back();
	assert_false(get_make(&in, &got));
}

static const char *const mount_names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };

static void a_cell_has_at_most_8_mounts(void **state)
{
	struct msg_make m = some_make();
	struct msg_make got;
	struct frame_in in;

	(void)state;
	m.mounts_count = MOUNTS_MAX;
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		m.mounts[i] = (struct mount_wish){ "/data", mount_names[i] };
	assert_true(make_is_taken(&m));
	/* By hand, as above. */
	m.mounts_count = 0;
	put_make(&out, &m);
	out.len -= 4;
	frame_put_u32(&out, MOUNTS_MAX + 1);
	for (unsigned i = 0; i <= MOUNTS_MAX; i++) {
		frame_put_string(&out, "/data");
		frame_put_string(&out, mount_names[i]);
	}
	in = read_back();
	assert_false(get_make(&in, &got));
	put_make(&out, &m);
	out.len -= 4;
	frame_put_u32(&out, UINT32_MAX);
	in = read_back();
	assert_false(get_make(&in, &got));
}

static bool mount_is_taken(const char *source, const char *name)
{
	struct msg_make m = some_make();

	m.mounts_count = 1;
	m.mounts[0] = (struct mount_wish){ source, name };
	return make_is_taken(&m);
}

static void a_mount_is_an_absolute_path_and_one_plain_name(void **state)
{
	static const char *const sources[] = { "", "/", "data", "./data", "/data/", "/data/..",
		"/../etc", "/data/../etc", "/./data", "/data//sets", "//data" };
	static const char *const names[] = { "", ".", "..", "a/b", "/a", "a/", "a b", "a\n",
		"\xc3\xa4", "a:b", "~", "a\\b" };
	static char longest[256];

	(void)state;
	assert_true(mount_is_taken("/data/..x/...", "...")); /* these are names like any other */
	for (size_t i = 0; i < COUNT(sources); i++)
		if (mount_is_taken(sources[i], "name"))
			fail_msg("the source '%s' is taken", sources[i]);
	for (size_t i = 0; i < COUNT(names); i++)
		if (mount_is_taken("/data", names[i]))
			fail_msg("the name '%s' is taken", names[i]);
	memset(longest, 'n', sizeof(longest) - 1);
	assert_true(mount_is_taken("/data", longest));
	assert_true(mount_is_taken("/data", "-"));
}

static void a_name_or_path_that_is_too_long_is_no_mount(void **state)
{
	static char name[257];
	static char path[4200];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	assert_false(mount_is_taken("/data", name));
	for (size_t i = 0; i + 1 < sizeof(path); i++)
		path[i] = i % 100 == 0 ? '/' : 'p';
	assert_false(mount_is_taken(path, "name"));
	path[4000] = '\0';
	assert_true(mount_is_taken(path, "name"));
}

static void two_mounts_of_one_name_are_refused(void **state)
{
	struct msg_make m = some_make();

	(void)state;
	m.mounts[0] = (struct mount_wish){ "/a", "same" };
	m.mounts[1] = (struct mount_wish){ "/b", "same" };
	assert_false(make_is_taken(&m));
	m.mounts[1] = (struct mount_wish){ "/a", "other" };
	assert_true(make_is_taken(&m));
}

static void what_is_below_a_directory_has_its_path_and_a_slash_before_it(void **state)
{
	(void)state;
	assert_string_equal(mount_below("/data", "/data"), "");
	assert_string_equal(mount_below("/data", "/data/a/b"), "a/b");
	assert_string_equal(mount_below("/data//", "/data/a"), "a");
	assert_string_equal(mount_below("/", "/data/a"), "data/a");
	assert_null(mount_below("/data", "/database"));
	assert_null(mount_below("/data", "/dat"));
	assert_null(mount_below("/data/a", "/data"));
	assert_null(mount_below("data", "/data"));
	assert_null(mount_below("", "/data"));
}

static void of_several_directories_the_deepest_counts(void **state)
{
	static const char *const dirs[] = { "/other", "/data", "/data/deep/", "/data/d", NULL };

	(void)state;
	assert_int_equal(mount_find_dir(dirs, "/data/x"), 1);
	assert_int_equal(mount_find_dir(dirs, "/data/deep"), 2);
	assert_int_equal(mount_find_dir(dirs, "/data/deep/x"), 2);
	assert_int_equal(mount_find_dir(dirs, "/data/deeper"), 1);
	assert_int_equal(mount_find_dir(dirs, "/etc"), -1);
	assert_int_equal(mount_find_dir(NULL, "/data"), -1);
}

static void only_known_networks_and_orders_are_taken(void **state)
{
	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		struct msg_make m = some_make();
		struct msg_order order = { .cell = 1, .order = (uint8_t)value };
		struct frame_in in;

		m.network = (uint8_t)value;
		assert_int_equal(make_is_taken(&m), value == NETWORK_NONE || value == NETWORK_HOST);
		put_order(&out, &order);
		in = read_back();
		/* The engine may cancel and interrupt; cpu and memory are for the warden itself to see. */
		assert_int_equal(
			get_order(&in, &order), value == ORDER_CANCEL || value == ORDER_INTERRUPT);
	}
}

static void paths_that_do_not_fit_into_a_frame_are_not_cut(void **state)
{
	static char path[4000];
	struct msg_make m = some_make();

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	m.binds_count = MAKE_BINDS_MAX;
	for (unsigned i = 0; i < MAKE_BINDS_MAX; i++)
		m.binds[i] = path;
	put_make(&out, &m);
	assert_true(out.overflow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_warden_message_comes_back_as_it_was),
		TEST(every_cut_or_longer_warden_message_is_refused),
		TEST(no_changed_byte_in_a_warden_message_does_harm),
		TEST(limits_outside_the_table_are_refused_and_zero_means_none),
		TEST(a_cell_has_at_most_32_binds),
		TEST(a_cell_has_at_most_8_mounts),
		TEST(a_mount_is_an_absolute_path_and_one_plain_name),
		TEST(a_name_or_path_that_is_too_long_is_no_mount),
		TEST(two_mounts_of_one_name_are_refused),
		TEST(what_is_below_a_directory_has_its_path_and_a_slash_before_it),
		TEST(of_several_directories_the_deepest_counts),
		TEST(only_known_networks_and_orders_are_taken),
		TEST(paths_that_do_not_fit_into_a_frame_are_not_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
