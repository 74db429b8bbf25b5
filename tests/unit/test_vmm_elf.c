#include "testing.h"

#include "base/own.h"
#include "vmm/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program_text[] = "a header of this machine's kind";

static void write_program(struct scratch *s, const char *name, const char *text)
{
	if (text == program_text) {
		const Elf64_Ehdr header = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
		};
		auto_close int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		assert_int_equal(write(fd, &header, sizeof(header)), sizeof(header));
	} else {
		write_file(s->fd, name, text);
	}
	assert_int_equal(fchmodat(s->fd, name, 0755, 0), 0);
}

/* "#!path-of-interpreter rest" */
static void write_script(
	struct scratch *s, const char *name, const char *interpreter, const char *rest)
{
	char text[512];

	snprintf(text, sizeof(text), "#!%s%s", in(s->path, interpreter), rest);
	write_program(s, name, text);
}

static void expect(struct scratch *s, const char *name, const char *const *argv,
	const char *program, const char *const *wanted)
{
	static struct elf_program p;
	size_t i = 0;

	assert_int_equal(elf_resolve(in(s->path, name), argv, &p), 0);
	assert_string_equal(p.path, in(s->path, program));
	for (; wanted[i]; i++) {
		assert_non_null(p.argv[i]);
		/* "./x" stands for x in the scratch directory. */
		assert_string_equal(
			p.argv[i], wanted[i][0] == '.' ? in(s->path, wanted[i] + 2) : wanted[i]);
	}
	assert_null(p.argv[i]);
	elf_program_close(&p);
}

static int result_of(struct scratch *s, const char *name)
{
	static const char *const argv[] = { "x", NULL };
	static struct elf_program p;
	int result = elf_resolve(in(s->path, name), argv, &p);

	elf_program_close(&p);
	return result;
}

static void a_program_is_itself(void **state)
{
	static const char *const argv[] = { "name", "a", "b", NULL };
	struct scratch *s = *state;

	write_program(s, "program", program_text);
	expect(s, "program", argv, "program", argv);
}

static void a_script_is_an_argument_of_its_interpreter(void **state)
{
	static const char *const argv[] = { "name", "a", NULL };
	static const char *const wanted[] = { "./program", "./script", "a", NULL };
	struct scratch *s = *state;

	write_program(s, "program", program_text);
	write_script(s, "script", "program", "\necho\n");
	expect(s, "script", argv, "program", wanted);
}

static void all_that_follows_the_interpreter_is_one_argument(void **state)
{
	static const char *const argv[] = { "name", NULL };
	static const char *const wanted[] = { "./program", "-a  -b", "./script", NULL };
	struct scratch *s = *state;

	write_program(s, "program", program_text);
	write_script(s, "script", "program", " \t-a  -b \t\n");
	expect(s, "script", argv, "program", wanted);
}

static void a_script_may_be_the_interpreter_of_another(void **state)
{
	static const char *const argv[] = { "name", "a", NULL };
	static const char *const wanted[] = { "./program", "./inner", "-x", "./outer", "a", NULL };
	struct scratch *s = *state;

	write_program(s, "program", program_text);
	write_script(s, "inner", "program", "\n");
	write_script(s, "outer", "inner", " -x\n");
	expect(s, "outer", argv, "program", wanted);
}

static void a_script_without_a_name_still_gets_its_path(void **state)
{
	static const char *const argv[] = { NULL };
	static const char *const wanted[] = { "./program", "./script", NULL };
	struct scratch *s = *state;

	write_program(s, "program", program_text);
	write_script(s, "script", "program", "\n");
	expect(s, "script", argv, "program", wanted);
}

static void scripts_of_scripts_end_somewhere(void **state)
{
	struct scratch *s = *state;

	write_script(s, "self", "self", "\n");
	assert_int_equal(result_of(s, "self"), -ELOOP);
	write_program(s, "program", program_text);
	write_script(s, "one", "program", "\n");
	write_script(s, "two", "one", "\n");
	write_script(s, "three", "two", "\n");
	assert_int_equal(result_of(s, "two"), 0);
	assert_int_equal(result_of(s, "three"), -ELOOP);
}

static void what_is_no_program_is_refused(void **state)
{
	static const char *const texts[] = { "", "#", "#!", "#!\n", "#! \t\n", "text\n",
		"\x7f"
		"EL" };
	struct scratch *s = *state;
	char long_line[400];

	for (size_t i = 0; i < COUNT(texts); i++) {
		write_program(s, "program", texts[i]);
		assert_int_equal(result_of(s, "program"), -ENOEXEC);
	}
	memset(long_line, 'x', sizeof(long_line) - 1);
	memcpy(long_line, "#!/", 3);
	long_line[sizeof(long_line) - 1] = '\0';
	write_program(s, "program", long_line);
	assert_int_equal(result_of(s, "program"), -ENOEXEC);
}

static void what_may_not_be_executed_is_refused(void **state)
{
	struct scratch *s = *state;

	assert_int_equal(result_of(s, "missing"), -ENOENT);
	make_dir(s->fd, "directory");
	assert_int_equal(result_of(s, "directory"), -EACCES);
	assert_int_equal(mkfifoat(s->fd, "fifo", 0777), 0);
	assert_int_equal(result_of(s, "fifo"), -EACCES);
	write_file(s->fd, "plain", program_text);
	assert_int_equal(fchmodat(s->fd, "plain", 0644, 0), 0);
	assert_int_equal(result_of(s, "plain"), -EACCES);
	write_script(s, "script", "plain", "\n");
	assert_int_equal(result_of(s, "script"), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(a_program_is_itself),
		TEST_IN_SCRATCH(a_script_is_an_argument_of_its_interpreter),
		TEST_IN_SCRATCH(all_that_follows_the_interpreter_is_one_argument),
		TEST_IN_SCRATCH(a_script_may_be_the_interpreter_of_another),
		TEST_IN_SCRATCH(a_script_without_a_name_still_gets_its_path),
		TEST_IN_SCRATCH(scripts_of_scripts_end_somewhere),
		TEST_IN_SCRATCH(what_is_no_program_is_refused),
		TEST_IN_SCRATCH(what_may_not_be_executed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
