#include "testing.h"

#include "cell/uids.h"

#include <unistd.h>

/* Where there are ids to give; as an ordinary user there is one, our own. */
static bool gives_ids(const struct uids *u)
{
	if (geteuid() != 0)
		assert_int_equal(u->count, 0);
	return u->count > 0;
}

static void every_cell_has_an_id_that_is_neither_ours_nor_anothers(void **state)
{
	enum { CELLS = 50 };
	uid_t taken[CELLS];
	struct uids u;

	(void)state;
	uids_open(&u);
	for (int i = 0; i < CELLS; i++) {
		taken[i] = uids_take(&u);
		assert_true(taken[i] != (uid_t)-1);
		if (!gives_ids(&u)) {
			assert_int_equal(taken[i], geteuid());
			continue;
		}
		assert_true(taken[i] != 0);
		assert_true(taken[i] >= u.base && taken[i] < u.base + u.count);
		for (int k = 0; k < i; k++)
			assert_true(taken[i] != taken[k]);
	}
	for (int i = 0; i < CELLS; i++)
		uids_give_back(&u, taken[i]);
	uids_close(&u);
}

static void two_wardens_never_give_the_same(void **state)
{
	struct uids one;
	struct uids other;

	(void)state;
	uids_open(&one);
	uids_open(&other);
	if (gives_ids(&one)) {
		uid_t taken = uids_take(&one);

		/* Made to begin at the very one. */
		other.next = (unsigned)(taken - other.base);
		assert_true(uids_take(&other) != taken);
		uids_give_back(&one, taken);
		other.next = (unsigned)(taken - other.base);
		assert_int_equal(uids_take(&other), taken);
	} else {
		assert_int_equal(uids_take(&one), uids_take(&other));
	}
	uids_close(&one);
	uids_close(&other);
}

static void a_warden_that_ends_gives_all_of_its_back(void **state)
{
	struct uids one;
	struct uids other;
	uid_t taken;

	(void)state;
	uids_open(&one);
	uids_open(&other);
	taken = uids_take(&one);
	uids_close(&one);
	other.next = (unsigned)(taken - other.base);
	assert_int_equal(uids_take(&other), taken);
	uids_close(&other);
}

static void when_all_are_taken_there_is_none(void **state)
{
	struct uids one;
	struct uids other;

	(void)state;
	uids_open(&one);
	uids_open(&other);
	if (gives_ids(&one)) {
		one.count = other.count = 2;
		one.next = other.next = 0;
		assert_int_equal(uids_take(&one), one.base);
		assert_int_equal(uids_take(&other), one.base + 1);
		assert_int_equal(uids_take(&one), (uid_t)-1);
		uids_give_back(&other, one.base + 1);
		assert_int_equal(uids_take(&one), one.base + 1);
	}
	uids_close(&one);
	uids_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_cell_has_an_id_that_is_neither_ours_nor_anothers),
		TEST(two_wardens_never_give_the_same),
		TEST(a_warden_that_ends_gives_all_of_its_back),
		TEST(when_all_are_taken_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
