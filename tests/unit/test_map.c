#include "testing.h"

#include "base/map.h"

#include <stdio.h>

static int values[5000];

static const char *name_of(int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "name-%d", i);
	return name;
}

static void what_was_put_is_found(void **state)
{
	struct map m = { 0 };

	(void)state;
	assert_null(map_get(&m, "a"));
	assert_null(map_put(&m, "a", &values[1]));
	assert_ptr_equal(map_get(&m, "a"), &values[1]);
	assert_ptr_equal(map_put(&m, "a", &values[2]), &values[1]);
	assert_ptr_equal(map_get(&m, "a"), &values[2]);
	assert_int_equal(m.count, 1);
	map_free(&m);
}

/* Removing closes gaps: whatever stood behind must still be found. */
static void what_is_removed_takes_nothing_else_with_it(void **state)
{
	struct map m = { 0 };

	(void)state;
	for (int i = 0; i < 5000; i++)
		map_put(&m, name_of(i), &values[i]);
	for (int i = 0; i < 5000; i += 3)
		assert_ptr_equal(map_remove(&m, name_of(i)), &values[i]);
	for (int i = 0; i < 5000; i++)
		assert_ptr_equal(map_get(&m, name_of(i)), i % 3 ? &values[i] : NULL);
	assert_int_equal(m.count, 5000 - 1667);
	assert_null(map_remove(&m, "no such"));
	map_free(&m);
}

static void a_walk_meets_each_once(void **state)
{
	struct map m = { 0 };
	size_t at = 0;
	int *value;
	int sum = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		values[i] = i;
		map_put(&m, name_of(i), &values[i]);
	}
	while ((value = map_next(&m, &at)))
		sum += *value;
	assert_int_equal(sum, 4950);
	map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_found),
		cmocka_unit_test(what_is_removed_takes_nothing_else_with_it),
		cmocka_unit_test(a_walk_meets_each_once),
	};

	return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
