#include "testing.h"

#include "engine/pace.h"

enum { PROCESSORS = 2, MANY = PACE_MANY * PROCESSORS };

static const int64_t start_us = 5000000000;

/* So many at even distances from `*now_us` on. Returns what was said of the last one. */
static bool count_some(struct pace *p, unsigned count, int64_t distance_us, int64_t *now_us)
{
	bool are_many = false;

	for (unsigned i = 0; i < count; i++, *now_us += distance_us)
		are_many = pace_count(p, *now_us, PROCESSORS);
	return are_many;
}

static void few_are_never_many(void **state)
{
	struct pace p = { 0 };
	int64_t now_us = start_us;

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_false(count_some(&p, 1, PACE_STRETCH_US / (MANY / 2), &now_us));
}

static void a_burst_is_many_from_some_number_on(void **state)
{
	struct pace p = { 0 };
	int64_t now_us = start_us;

	(void)state;
	assert_false(count_some(&p, MANY - 1, 100, &now_us));
	assert_true(count_some(&p, 1, 100, &now_us));
}

static void they_stay_many_when_the_next_stretch_begins(void **state)
{
	struct pace p = { 0 };
	int64_t now_us = start_us;

	(void)state;
	count_some(&p, MANY, 2000, &now_us);
	for (int i = 0; i < 1000; i++)
		assert_true(count_some(&p, 1, 2000, &now_us));
}

static void after_a_pause_they_are_few_again(void **state)
{
	struct pace p = { 0 };
	int64_t now_us = start_us;

	(void)state;
	assert_true(count_some(&p, 4 * MANY, 100, &now_us));
	now_us += 2L * PACE_STRETCH_US;
	assert_false(count_some(&p, 1, 100, &now_us));
}

static void more_processors_make_more(void **state)
{
	struct pace p = { 0 };

	(void)state;
	for (unsigned i = 1; i < 64 * PACE_MANY; i++)
		assert_false(pace_count(&p, start_us, 64));
	assert_true(pace_count(&p, start_us, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(few_are_never_many),
		TEST(a_burst_is_many_from_some_number_on),
		TEST(they_stay_many_when_the_next_stretch_begins),
		TEST(after_a_pause_they_are_few_again),
		TEST(more_processors_make_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
