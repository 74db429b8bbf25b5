#include "testing.h"

#include "keeper/vmm.h"
#include "wire/vmm_start.h"

static void expect_words(const struct msg_exec *exec, const char *const *wanted)
{
	const char *const *words = vmm_write_command(exec, &(struct keeper_options){ 0 });
	size_t i = 0;

	for (; wanted[i]; i++)
		assert_string_equal(words[i], wanted[i]);
	assert_null(words[i]);
}

static void the_command_has_options_environment_and_program(void **state)
{
	static const struct msg_exec exec = {
		.open_files = 64,
		.memory_bytes = 1 << 20,
		.trace = 1,
		.argv_count = 2,
		.env_count = 1,
		.words = { "/bin/sh", "--trace", NULL, "A=b", NULL },
	};
	static const char *const wanted[] = { "hotcell-vmm", "--open-files=64", "--memory=1048576",
		"--trace", "1", "A=b", "/bin/sh", "/bin/sh", "--trace", NULL };

	(void)state;
	expect_words(&exec, wanted);
}

static void a_guest_has_no_more_descriptors_than_lie_below_the_vmms(void **state)
{
	static const struct msg_exec exec = {
		.open_files = 65536, .argv_count = 1, .words = { "/bin/true", NULL, NULL }
	};
	static const char *const wanted[] = { "hotcell-vmm", "--open-files=1000", "0", "/bin/true",
		"/bin/true", NULL };

	(void)state;
	assert_int_equal(VMM_GUEST_FDS, 1000);
	expect_words(&exec, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_command_has_options_environment_and_program),
		cmocka_unit_test(a_guest_has_no_more_descriptors_than_lie_below_the_vmms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
