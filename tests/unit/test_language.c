#include "language/cache.h"
#include "language/language.h"

#include "base/own.h"
#include "base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

/* A directory of its own for each test, with `first` and `second` in it for language files. */
struct place {
	char root[64];
	char first[80];
	char second[256];
	char problems[4096]; /* what registry_load() told, a line each */
	struct registry *registry;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	(void)st;
	(void)kind;
	(void)walk;
	return remove(path);
}

static int make_place(void **state)
{
	struct place *p = xalloc(sizeof(*p));

	snprintf(p->root, sizeof(p->root), "/tmp/test_language.XXXXXX");
	assert_non_null(mkdtemp(p->root));
	snprintf(p->first, sizeof(p->first), "%s/first", p->root);
	snprintf(p->second, sizeof(p->second), "%s/second", p->root);
	assert_int_equal(mkdir(p->first, 0755), 0);
	assert_int_equal(mkdir(p->second, 0755), 0);
	*state = p;
	return 0;
}

static int clear_place(void **state)
{
	struct place *p = *state;

	registry_free(p->registry);
	nftw(p->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(p);
	return 0;
}

static void put(const char *dir, const char *name, const char *text)
{
	auto_free char *path = path_join(dir, name);
	auto_fclose FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
}

static void on_problem(void *context, const char *text)
{
	struct place *p = context;
	size_t used = strlen(p->problems);

	snprintf(p->problems + used, sizeof(p->problems) - used, "%s\n", text);
}

static struct registry *load(struct place *p)
{
	const char *dirs[] = { p->first, p->second };

	registry_free(p->registry);
	p->problems[0] = '\0';
	p->registry = registry_load(dirs, 2, on_problem, p);
	return p->registry;
}

/* A small correct file of seven lines, with `more` behind it. */
static void put_language(const char *dir, const char *id, const char *more)
{
	static const char format[] = "id: %s\n"
				     "name: The language\n"
				     "file: main.x\n"
				     "find:\n"
				     "  - program: sh\n"
				     "version: [\"{program}\", -c, echo 1]\n"
				     "run: [\"{program}\", \"{file}\", \"{args}\"]\n"
				     "%s";
	auto_free char *name = xasprintf("%s.yaml", id);
	auto_free char *text = xasprintf(format, id, more);

	put(dir, name, text);
}

/* Loads `text` as the only file and expects exactly this problem behind the directory's name. */
static void expect_problem(struct place *p, const char *text, const char *problem)
{
	auto_free char *expected = xasprintf("%s/wrong.yaml:%s\n", p->first, problem);

	put(p->first, "wrong.yaml", text);
	load(p);
	assert_string_equal(p->problems, expected);
	assert_int_equal(registry_count(p->registry), 0);
}

static const char *found(const struct registry *r, const char *name)
{
	static struct err e;
	const struct language *l = registry_find(r, name, &e);

	return l ? l->id : e.text;
}

static const char *guessed(const struct registry *r, const char *path, const char *code)
{
	const struct language *l = registry_guess(r, path, code, code ? strlen(code) : 0);

	return l ? l->id : "none";
}

/* ---- files ---- */

static void a_file_with_every_key_is_loaded_as_it_stands(void **state)
{
	struct place *p = *state;
	const struct language *l;

	put(p->first, "full.yaml",
		"id: full\nname: Full\naliases: [f, F2]\nfile: src/main.x\nendings: [.x]\n"
		"shebangs: [x]\ninstall: apt install x\n"
		"find:\n"
		"  - program: /bin/x\n"
		"    also: [y, ~/z]\n"
		"    version: [a]\n"
		"    compile: [b]\n"
		"    run: [c]\n"
		"    last_line: [d]\n"
		"    needs: [/opt/x]\n"
		"  - program: x\n"
		"version: [v, w]\ncompile: [cc]\n"
		"compile_limits: { timeout_s: 10, memory_mb: 20, processes: 30 }\n"
		"run: [r]\nlast_line: [ll]\nenv: [A=1, B=]\nneeds: [/etc/x]\n"
		"memory_mb: 700\nprocesses: 80\ndriver: x\ndependencies: [pip]\n");
	load(p);
	assert_string_equal(p->problems, "");
	l = registry_at(p->registry, 0);
	assert_string_equal(l->name, "Full");
	assert_int_equal(l->aliases.count, 2);
	assert_string_equal(l->aliases.at[1], "F2");
	assert_string_equal(l->file, "src/main.x");
	assert_string_equal(l->install, "apt install x");
	assert_int_equal(l->find_count, 2);
	assert_string_equal(l->find[0].also.at[1], "~/z");
	assert_string_equal(l->find[0].last_line.at[0], "d");
	assert_int_equal(l->find[1].run.count, 0);
	assert_string_equal(l->version.at[1], "w");
	assert_int_equal(l->compile_limits.timeout_s, 10);
	assert_int_equal(l->compile_limits.memory_mb, 20);
	assert_int_equal(l->compile_limits.processes, 30);
	assert_string_equal(l->env.at[1], "B=");
	assert_int_equal(l->memory_mb, 700);
	assert_int_equal(l->processes, 80);
	assert_string_equal(l->driver, "x");
	assert_string_equal(path_base(l->path), "full.yaml");
}

static void languages_are_sorted_by_id_whatever_their_files_are_called(void **state)
{
	struct place *p = *state;

	put_language(p->first, "zeta", "");
	put_language(p->second, "alpha", "");
	put_language(p->first, "mid", "");
	load(p);
	assert_int_equal(registry_count(p->registry), 3);
	assert_string_equal(registry_at(p->registry, 0)->id, "alpha");
	assert_string_equal(registry_at(p->registry, 2)->id, "zeta");
	assert_null(registry_at(p->registry, 3));
}

static void only_yaml_files_that_are_not_hidden_are_read(void **state)
{
	struct place *p = *state;

	put(p->first, "README.md", "not a language");
	put(p->first, ".hidden.yaml", "not a language");
	put(p->first, "x.yaml~", "not a language");
	load(p);
	assert_string_equal(p->problems, "");
	assert_int_equal(registry_count(p->registry), 0);
}

static void a_directory_that_is_not_there_is_no_problem(void **state)
{
	struct place *p = *state;

	put_language(p->second, "x", "");
	assert_int_equal(rmdir(p->first), 0);
	load(p);
	assert_string_equal(p->problems, "");
	assert_int_equal(registry_count(p->registry), 1);
}

static void a_later_directory_replaces_a_language_of_the_same_id(void **state)
{
	struct place *p = *state;

	put_language(p->first, "x", "memory_mb: 1\n");
	put_language(p->second, "x", "memory_mb: 2\n");
	load(p);
	assert_string_equal(p->problems, "");
	assert_int_equal(registry_count(p->registry), 1);
	assert_int_equal(registry_at(p->registry, 0)->memory_mb, 2);
}

static void an_id_that_stands_twice_in_one_directory_is_a_problem(void **state)
{
	struct place *p = *state;

	put_language(p->first, "x", "memory_mb: 1\n");
	put(p->first, "y.yaml",
		"id: x\nname: X\nfile: f\nfind: [{ program: sh }]\nversion: [v]\nrun: [r]\n");
	load(p);
	assert_non_null(strstr(p->problems, "y.yaml: id: 'x' stands already in x.yaml\n"));
	assert_int_equal(registry_at(p->registry, 0)->memory_mb, 1);
}

static void wrong_files_are_each_told_and_the_others_load(void **state)
{
	struct place *p = *state;

	put_language(p->first, "good", "");
	put_language(p->first, "typo", "memroy_mb: 5\n");
	put(p->first, "empty.yaml", "");
	put(p->first, "list.yaml", "- a\n");
	put_language(p->second, "fine", "");
	load(p);
	assert_int_equal(registry_count(p->registry), 2);
	assert_non_null(strstr(p->problems, "/empty.yaml:1: the file is empty\n"));
	assert_non_null(strstr(p->problems, "/list.yaml:1: want keys with values\n"));
	assert_non_null(strstr(p->problems, "/typo.yaml:8: memroy_mb: unknown key"));
}

static void a_wrong_override_leaves_the_earlier_language_in_place(void **state)
{
	struct place *p = *state;

	put_language(p->first, "x", "memory_mb: 1\n");
	put_language(p->second, "x", "memory_mb: lots\n");
	load(p);
	assert_non_null(strstr(
		p->problems, "second/x.yaml:8: memory_mb: want a whole number, not 'lots'\n"));
	assert_int_equal(registry_at(p->registry, 0)->memory_mb, 1);
}

static void a_language_runs_in_a_vm_only_if_it_says_so(void **state)
{
	struct place *p = *state;

	put_language(p->first, "a", "");
	put_language(p->first, "b", "vm: no\n");
	put_language(p->first, "c", "vm: yes\n");
	load(p);
	assert_int_equal(registry_at(p->registry, 0)->vm, LANGUAGE_VM_NO);
	assert_int_equal(registry_at(p->registry, 1)->vm, LANGUAGE_VM_NO);
	assert_int_equal(registry_at(p->registry, 2)->vm, LANGUAGE_VM_YES);
}

/* ---- what wrong files are told ---- */

#define HEAD "id: x\nname: X\nfile: f\n"
#define TAIL "version: [v]\nrun: [r]\n"
#define FIND "find:\n  - program: sh\n"

static void a_typo_in_a_key_is_reported_with_file_key_and_line(void **state)
{
	expect_problem(*state, HEAD "alaises: [y]\n" FIND TAIL,
		"4: alaises: unknown key; did you mean aliases?");
	expect_problem(*state, HEAD "find:\n  - program: sh\n    needs: [/x]\n    alos: [y]\n" TAIL,
		"7: alos: unknown key; did you mean also?");
	expect_problem(*state, HEAD FIND TAIL "compile_limits: { tmeout_s: 3 }\n",
		"8: tmeout_s: unknown key; did you mean timeout_s?");
	expect_problem(*state, HEAD FIND TAIL "\n# about it\nxyz: 1\n", "10: xyz: unknown key");
}

static void a_key_that_stands_twice_is_reported(void **state)
{
	expect_problem(*state, HEAD FIND TAIL "name: Y\n", "8: name: stands here twice");
}

static void a_missing_key_is_reported(void **state)
{
	expect_problem(*state, "id: x\nfile: f\n" FIND TAIL, "1: name: is missing");
	expect_problem(*state, HEAD TAIL, "1: find: is missing");
	expect_problem(*state, HEAD "find:\n  - also: [x]\n" TAIL, "5: program: is missing");
}

static void a_value_of_the_wrong_kind_is_reported(void **state)
{
	expect_problem(*state, HEAD FIND "version: v\nrun: [r]\n",
		"6: version: want a list such as [a, b]");
	expect_problem(
		*state, HEAD FIND TAIL "memory_mb: [1]\n", "8: memory_mb: want a whole number");
	expect_problem(*state, HEAD FIND TAIL "vm: maybe\n", "8: vm: want yes or no, not maybe");
	expect_problem(*state, HEAD FIND TAIL "vm: [yes]\n", "8: vm: want yes or no");
	expect_problem(*state, HEAD FIND TAIL "compile_limits: 5\n",
		"8: compile_limits: want keys with values");
	expect_problem(*state, "id: x\nname: []\nfile: f\n" FIND TAIL, "2: name: want text");
	expect_problem(*state, HEAD FIND "version: [v]\nrun: [{program}]\n",
		"7: run: want text; words with braces need quotes");
	expect_problem(
		*state, "id: x\nname: ''\nfile: f\n" FIND TAIL, "2: name: must not be empty");
	expect_problem(*state, HEAD "find: []\n" TAIL, "4: find: must not be empty");
}

static void broken_yaml_is_reported_near_its_line(void **state)
{
	struct place *p = *state;

	put(p->first, "wrong.yaml", HEAD FIND "run: [\"{program}\n");
	load(p);
	assert_non_null(strstr(p->problems, "not valid YAML, here or a little below: "));
	assert_non_null(strstr(p->problems, "wrong.yaml:"));
}

static void aliases_second_documents_and_nul_bytes_are_refused(void **state)
{
	struct place *p = *state;
	auto_free char *path = path_join(p->first, "wrong.yaml");
	auto_close int fd = -1;

	expect_problem(p, "id: x\nname: &n X\nfile: *n\n" FIND TAIL,
		"3: file: anchors and aliases (& and *) are not allowed");
	expect_problem(p, HEAD FIND TAIL "---\nid: y\n",
		"1: want one document, but here a second one begins");
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, "id: x\0y\n", 8), 8);
	load(p);
	assert_non_null(strstr(p->problems, "the file has NUL bytes"));
}

static void files_and_lists_have_a_largest_size(void **state)
{
	struct place *p = *state;
	auto_buf struct buf text = { 0 };

	buf_add_str(&text, HEAD FIND TAIL "aliases:\n");
	for (int i = 0; i < 65; i++)
		buf_addf(&text, "  - a%d\n", i);
	put(p->first, "wrong.yaml", text.data);
	load(p);
	assert_non_null(strstr(p->problems, ": aliases: has too many entries\n"));
	while (text.len < 70000)
		buf_add_str(&text, "# a comment that makes the file too large\n");
	put(p->first, "wrong.yaml", text.data);
	load(p);
	assert_non_null(strstr(p->problems, "is larger than 65536 bytes"));
}

static void an_id_has_a_small_alphabet(void **state)
{
	static const char what[] = "1: id: want 1 to 32 of a-z, 0-9, '+', '_', '-'";

	expect_problem(*state, "id: Py\nname: X\nfile: f\n" FIND TAIL, what);
	expect_problem(*state, "id: a/b\nname: X\nfile: f\n" FIND TAIL, what);
	expect_problem(*state,
		"id: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nname: X\nfile: f\n" FIND TAIL, what);
}

static void values_that_make_no_sense_are_reported_with_their_line(void **state)
{
	expect_problem(*state, "id: x\nname: X\nfile: ../f\n" FIND TAIL,
		"3: file: '../f': File paths must not contain '..'.");
	expect_problem(*state, HEAD "endings: [py]\n" FIND TAIL,
		"4: endings: 'py': want a dot and a name, such as .py");
	expect_problem(*state, HEAD "shebangs: [/bin/x]\n" FIND TAIL,
		"4: shebangs: '/bin/x': want a program's name without a path");
	expect_problem(
		*state, HEAD FIND TAIL "env:\n  - A=1\n  - B\n", "8: env: 'B': want NAME=value");
	expect_problem(*state, HEAD FIND TAIL "processes: -1\n",
		"8: processes: want a whole number up to 32768");
	expect_problem(*state, "id: x\nname: \"X\\e[1m\"\nfile: f\n" FIND TAIL,
		"2: name: has a control character");
	expect_problem(*state, HEAD FIND TAIL "needs: [/a/../b]\n",
		"8: needs: '/a/../b': want a path that begins with / or ~/ and has no '..' and no "
		"'/' at its end");
}

static void mistakes_in_a_candidate_are_reported_with_its_line(void **state)
{
	expect_problem(*state, HEAD FIND "  - program: ./x\n" TAIL,
		"6: program: './x': want a path that begins with / or ~/, or a name");
	expect_problem(*state,
		HEAD "find:\n  - program: a\n    run: [r]\n  - program: b\nversion: [v]\n",
		"7: run: is missing, both here and in the language");
	expect_problem(*state, HEAD FIND "run: [r]\n",
		"5: version: is missing, both here and in the language");
	expect_problem(*state, HEAD FIND "version: [v]\nrun: [\"{out}\"]\n",
		"7: run: uses {out}, but there is no compile to make it");
}

static void run_and_version_may_stand_in_every_candidate_instead(void **state)
{
	struct place *p = *state;

	put(p->first, "x.yaml",
		HEAD "find:\n  - program: a\n    run: [r]\n    version: [v]\n"
		     "  - program: b\n    run: [s]\n    version: [w]\n");
	load(p);
	assert_string_equal(p->problems, "");
	assert_int_equal(registry_count(p->registry), 1);
}

static void every_language_that_comes_with_hotcell_loads(void **state)
{
	struct place *p = *state;

	/* Unit tests are run from the top of the source. */
	snprintf(p->second, sizeof(p->second), "languages");
	load(p);
	assert_string_equal(p->problems, "");
	assert_in_range(registry_count(p->registry), 10, 1000);
	assert_string_equal(found(p->registry, "py"), "python");
}

/* ---- finding ---- */

static void a_language_is_found_by_id_or_alias_in_any_case(void **state)
{
	struct place *p = *state;
	const struct registry *r;

	put_language(p->first, "python", "aliases: [py, Python3]\n");
	r = load(p);
	assert_string_equal(found(r, "python"), "python");
	assert_string_equal(found(r, "PYTHON"), "python");
	assert_string_equal(found(r, "Py"), "python");
	assert_string_equal(found(r, "python3"), "python");
}

static void an_id_wins_over_an_alias_and_a_later_directory_over_an_earlier_one(void **state)
{
	struct place *p = *state;
	const struct registry *r;

	put_language(p->first, "alpha", "aliases: [beta, shared]\n");
	put_language(p->first, "beta", "");
	put_language(p->second, "own", "aliases: [shared]\n");
	r = load(p);
	assert_string_equal(found(r, "beta"), "beta");
	assert_string_equal(found(r, "shared"), "own");
}

static void an_unknown_language_is_told_with_the_nearest_name(void **state)
{
	struct place *p = *state;
	const struct registry *r;

	put_language(p->first, "python", "aliases: [py]\n");
	put_language(p->first, "c", "");
	put_language(p->first, "go", "");
	r = load(p);
	assert_string_equal(found(r, "pyhton"), "unknown language 'pyhton'; did you mean python?");
	assert_string_equal(found(r, "pyy"), "unknown language 'pyy'; did you mean py?");
	assert_string_equal(found(r, "cobol"), "unknown language 'cobol'");
	assert_string_equal(found(r, "x"), "unknown language 'x'");
	assert_string_equal(found(r, ""), "unknown language ''");
	assert_string_equal(found(r, "a\x1b[1m"), "unknown language 'a?[1m'");
}

static void the_ending_of_a_file_tells_its_language(void **state)
{
	struct place *p = *state;
	const struct registry *r;

	put_language(p->first, "c", "endings: [.c]\n");
	put_language(p->first, "cpp", "endings: [.cpp, .C]\n");
	put_language(p->first, "python", "endings: [.py]\n");
	put_language(p->first, "types", "endings: [.d.py]\n");
	r = load(p);
	assert_string_equal(guessed(r, "a/b.py", NULL), "python");
	assert_string_equal(guessed(r, "B.PY", NULL), "python");
	assert_string_equal(guessed(r, "x.d.py", NULL), "types");
	assert_string_equal(guessed(r, "x.c", NULL), "c");
	assert_string_equal(guessed(r, "x.C", NULL), "cpp");
	assert_string_equal(guessed(r, "x.py.txt", NULL), "none");
	assert_string_equal(guessed(r, "dir.py/x", NULL), "none");
	assert_string_equal(guessed(r, ".py", NULL), "none");
	assert_string_equal(guessed(r, NULL, NULL), "none");
}

static void a_shebang_tells_the_language_where_the_ending_does_not(void **state)
{
	struct place *p = *state;
	const struct registry *r;

	put_language(p->first, "python", "endings: [.py]\nshebangs: [python3, python]\n");
	put_language(p->first, "bash", "shebangs: [bash]\n");
	put_language(p->first, "sh", "shebangs: [sh]\n");
	r = load(p);
	assert_string_equal(guessed(r, "tool", "#!/bin/bash\necho"), "bash");
	assert_string_equal(guessed(r, NULL, "#! /bin/sh -e\n"), "sh");
	assert_string_equal(guessed(r, NULL, "#!/usr/bin/env python3\r\nx"), "python");
	assert_string_equal(guessed(r, NULL, "#!/usr/bin/env -S A=1 python3 -u\n"), "python");
	assert_string_equal(guessed(r, NULL, "#!/opt/python3.11"), "python");
	assert_string_equal(guessed(r, NULL, "#!/usr/bin/python2.7\n"), "python");
	assert_string_equal(guessed(r, NULL, "#!/usr/bin/pythonish\n"), "none");
	assert_string_equal(guessed(r, "x.py", "#!/bin/bash\n"), "python");
	assert_string_equal(guessed(r, NULL, "#!"), "none");
	assert_string_equal(guessed(r, NULL, "#!/usr/bin/env"), "none");
	assert_string_equal(guessed(r, NULL, "echo #!/bin/sh"), "none");
	assert_string_equal(guessed(r, NULL, ""), "none");
}

static void a_later_directory_has_an_ending_that_two_languages_claim(void **state)
{
	struct place *p = *state;

	put_language(p->first, "alpha", "endings: [.x]\n");
	put_language(p->second, "beta", "endings: [.x]\n");
	assert_string_equal(guessed(load(p), "a.x", NULL), "beta");
}

/* ---- commands ---- */

static void expect_words(char **words, const char *joined)
{
	auto_buf struct buf all = { 0 };

	for (size_t i = 0; words[i]; i++)
		buf_addf(&all, "%s|", words[i]);
	assert_string_equal(all.len ? all.data : "", joined);
	strings_free(words);
}

#define WORDS(...)                                                                                 \
	&(struct strings)                                                                          \
	{                                                                                          \
		.at = (char *[]){ __VA_ARGS__ },                                                   \
		.count = sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)                        \
	}

static void expanding_replaces_every_name_that_has_a_value(void **state)
{
	struct expansion x = {
		.program = "/bin/p",
		.file = "f.x",
		.out = "/out/o",
		.drivers = "/drivers",
		.workspace = "/workspace",
		.memory_mb = 700,
	};

	(void)state;
	expect_words(
		command_expand(WORDS("{program}", "{drivers}/a.py", "{file}", "-o{out}:{out}"), &x),
		"/bin/p|/drivers/a.py|f.x|-o/out/o:/out/o|");
	expect_words(command_expand(WORDS("-I{workspace}", "-m{memory_mb}m"), &x),
		"-I/workspace|-m700m|");
	x.memory_mb = 0;
	expect_words(command_expand(WORDS("{memory_mb}"), &x), "512|");
}

static void arguments_become_words_of_their_own(void **state)
{
	const char *const args[] = { "a b", "{file}", "", NULL };
	struct expansion x = { .program = "p", .file = "f", .args = args };

	(void)state;
	expect_words(command_expand(WORDS("{program}", "{args}", "end"), &x), "p|a b|{file}||end|");
	expect_words(command_expand(WORDS("x={args}"), &x), "x=a b {file} |");
	x.args = NULL;
	expect_words(command_expand(WORDS("{program}", "{args}", "end"), &x), "p|end|");
}

static void what_is_not_a_known_name_is_left_as_it_is(void **state)
{
	struct expansion x = { .program = "{file}" };

	(void)state;
	expect_words(command_expand(WORDS("{ print $1 }", "{", "{}", "{{program}}", "{out}"), &x),
		"{ print $1 }|{|{}|{{file}}|{out}|");
	expect_words(command_expand(&(struct strings){ 0 }, &x), "");
}

/* ---- programs ---- */

static void put_program(const char *dir, const char *name, mode_t mode)
{
	auto_free char *path = path_join(dir, name);

	put(dir, name, "#!/bin/sh\n");
	assert_int_equal(chmod(path, mode), 0);
}

static void expect_resolved(const struct candidate *c, const char *path)
{
	auto_free char *resolved = candidate_resolve(c);

	if (path)
		assert_string_equal(resolved, path);
	else
		assert_null(resolved);
}

static void a_program_is_found_by_path_by_home_or_by_name(void **state)
{
	struct place *p = *state;
	auto_free char *path = path_join(p->first, "tool");
	auto_free char *home = xstrdup(getenv("HOME") ? getenv("HOME") : "");

	put_program(p->first, "tool", 0755);
	expect_resolved(&(struct candidate){ .program = path }, path);
	setenv("HOME", p->root, 1);
	expect_resolved(&(struct candidate){ .program = "~/first/tool" }, path);
	expect_resolved(&(struct candidate){ .program = "~/first/none" }, NULL);
	setenv("HOME", home, 1);
	expect_resolved(&(struct candidate){ .program = "env" }, "/usr/bin/env");
	expect_resolved(&(struct candidate){ .program = "no-such-program" }, NULL);
}

static void what_is_no_executable_file_is_not_a_program(void **state)
{
	struct place *p = *state;
	auto_free char *path = path_join(p->first, "tool");

	put_program(p->first, "tool", 0644);
	expect_resolved(&(struct candidate){ .program = path }, NULL);
	expect_resolved(&(struct candidate){ .program = p->first }, NULL);
	expect_resolved(&(struct candidate){ .program = "first/tool" }, NULL);
}

static void a_candidate_needs_all_its_programs(void **state)
{
	(void)state;
	expect_resolved(&(struct candidate){ .program = "env", .also = *WORDS("sh", "/bin/sh") },
		"/usr/bin/env");
	expect_resolved(
		&(struct candidate){ .program = "env", .also = *WORDS("sh", "no-such") }, NULL);
}

static void needs_are_the_paths_that_exist_each_once(void **state)
{
	struct place *p = *state;
	auto_free char *pattern = xasprintf("%s/x*", p->root);
	auto_free char *one = xasprintf("%s/x1", p->root);
	auto_free char *expected = xasprintf("%s/x1|%s/x2|", p->root, p->root);
	struct language l = { .needs = *WORDS(one, "/no/such/path") };
	struct candidate c = { .needs = *WORDS(pattern, one) };

	put(p->root, "x1", "");
	put(p->root, "x2", "");
	expect_words(language_needs(&l, &c), expected);
	expected[strlen(p->root) + 4] = '\0';
	expect_words(language_needs(&l, NULL), expected);
}

/* ---- the probe cache ---- */

struct known {
	bool known;
	bool works;
	char version[64];
};

static struct known ask(struct place *p, const char *program, const char *command)
{
	struct probe_cache *c = probe_cache_open(p->second);
	struct known k = { 0 };
	const char *version;

	k.known = probe_cache_get(c, program, command, &k.works, &version);
	if (k.known)
		snprintf(k.version, sizeof(k.version), "%s", version);
	probe_cache_close(c);
	return k;
}

static void learn(struct place *p, const char *program, bool works, const char *version)
{
	struct probe_cache *c = probe_cache_open(p->second);

	probe_cache_set(c, program, "--version", works, version);
	probe_cache_close(c);
}

/* A program in first/, about which the cache in second/ knows that it works. */
static char *known_program(struct place *p)
{
	char *path = path_join(p->first, "tool");

	put_program(p->first, "tool", 0755);
	learn(p, "/bin/sh", false, "");
	learn(p, path, true, "Tool 1.0\twith\ttabs\\and\nlines");
	return path;
}

static void what_was_learned_is_known_next_time(void **state)
{
	struct place *p = *state;
	auto_free char *tool = known_program(p);
	struct known k = ask(p, tool, "--version");

	assert_true(k.known);
	assert_true(k.works);
	assert_string_equal(k.version, "Tool 1.0\twith\ttabs\\and\nlines");
	k = ask(p, "/bin/sh", "--version");
	assert_true(k.known);
	assert_false(k.works);
	assert_false(ask(p, tool, "-v").known);
	assert_false(ask(p, "/bin/cat", "--version").known);
}

static void a_program_that_changed_is_no_longer_known(void **state)
{
	struct place *p = *state;
	auto_free char *tool = known_program(p);

	put(p->first, "tool", "#!/bin/sh\n# changed\n");
	assert_false(ask(p, tool, "--version").known);
	learn(p, tool, true, "Tool 2.0");
	assert_string_equal(ask(p, tool, "--version").version, "Tool 2.0");
	unlink(tool);
	assert_false(ask(p, tool, "--version").known);
}

static void a_program_put_in_anothers_place_is_not_known(void **state)
{
	struct place *p = *state;
	auto_free char *tool = known_program(p);
	auto_free char *other = path_join(p->first, "other");

	put_program(p->first, "other", 0755);
	assert_int_equal(rename(other, tool), 0);
	assert_false(ask(p, tool, "--version").known);
}

static void a_cache_that_others_may_write_is_ignored(void **state)
{
	struct place *p = *state;
	auto_free char *tool = known_program(p);
	auto_free char *file = path_join(p->second, "probes");
	auto_free char *moved = path_join(p->second, "elsewhere");

	chmod(file, 0620);
	assert_false(ask(p, tool, "--version").known);
	chmod(file, 0602);
	assert_false(ask(p, tool, "--version").known);
	chmod(file, 0600);
	assert_true(ask(p, tool, "--version").known);
	assert_int_equal(rename(file, moved), 0);
	assert_int_equal(symlink("elsewhere", file), 0);
	assert_false(ask(p, tool, "--version").known);
}

static void a_cache_of_another_user_is_ignored(void **state)
{
	struct place *p = *state;
	auto_free char *tool = NULL;
	auto_free char *file = NULL;

	if (geteuid() != 0)
		skip();
	tool = known_program(p);
	file = path_join(p->second, "probes");
	assert_int_equal(chown(file, 65534, 65534), 0);
	assert_false(ask(p, tool, "--version").known);
}

static void a_cache_that_is_damaged_is_ignored_and_replaced(void **state)
{
	static const char *const damaged[] = {
		"",
		"end\n",
		"hotcell probes 1\n",
		"hotcell probes 2\nend\n",
		"hotcell probes 1\n/bin/sh\t--version\t1\t2\nend\n",
		"hotcell probes 1\n/bin/sh\t--version\t1\t2\t3\tx\t1\tv\nend\n",
		"hotcell probes 1\n/bin/sh\t--version\t1\t2\t3\t4\t2\tv\nend\n",
		"hotcell probes 1\n/bin/sh\t--version\t1\t2\t3\t4\t1\tv\n",
		"hotcell probes 1\nend\nmore\n",
		"hotcell probes 1\nend",
		"\t\t\t\t\t\t\t\n\\",
	};
	struct place *p = *state;

	for (size_t i = 0; i < COUNT(damaged); i++) {
		put(p->second, "probes", damaged[i]);
		assert_false(ask(p, "/bin/sh", "--version").known);
	}
	learn(p, "/bin/sh", true, "1");
	assert_true(ask(p, "/bin/sh", "--version").known);
}

static void a_cache_without_a_place_works_until_it_is_closed(void **state)
{
	struct probe_cache *c = probe_cache_open(NULL);
	const char *version;
	bool works;

	(void)state;
	probe_cache_set(c, "/bin/sh", "v", true, NULL);
	probe_cache_set(c, "/no/such/program", "v", true, "1");
	assert_true(probe_cache_get(c, "/bin/sh", "v", &works, &version));
	assert_string_equal(version, "");
	assert_false(probe_cache_get(c, "/no/such/program", "v", &works, &version));
	probe_cache_close(c);
	probe_cache_close(NULL);
	c = probe_cache_open("/proc/no/such/place");
	probe_cache_set(c, "/bin/sh", "v", true, "1");
	probe_cache_close(c);
}

static void the_directory_of_the_cache_is_made_when_there_is_something_to_keep(void **state)
{
	struct place *p = *state;
	auto_free char *deep = xasprintf("%s/a/b", p->root);
	struct stat st;

	probe_cache_close(probe_cache_open(deep));
	assert_int_equal(stat(deep, &st), -1);
	snprintf(p->second, sizeof(p->second), "%s", deep);
	learn(p, "/bin/sh", true, "1");
	assert_true(ask(p, "/bin/sh", "--version").known);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, clear_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_with_every_key_is_loaded_as_it_stands),
		TEST(languages_are_sorted_by_id_whatever_their_files_are_called),
		TEST(only_yaml_files_that_are_not_hidden_are_read),
		TEST(a_directory_that_is_not_there_is_no_problem),
		TEST(a_later_directory_replaces_a_language_of_the_same_id),
		TEST(an_id_that_stands_twice_in_one_directory_is_a_problem),
		TEST(wrong_files_are_each_told_and_the_others_load),
		TEST(a_wrong_override_leaves_the_earlier_language_in_place),
		TEST(a_language_runs_in_a_vm_only_if_it_says_so),
		TEST(a_typo_in_a_key_is_reported_with_file_key_and_line),
		TEST(a_key_that_stands_twice_is_reported),
		TEST(a_missing_key_is_reported),
		TEST(a_value_of_the_wrong_kind_is_reported),
		TEST(broken_yaml_is_reported_near_its_line),
		TEST(aliases_second_documents_and_nul_bytes_are_refused),
		TEST(files_and_lists_have_a_largest_size),
		TEST(an_id_has_a_small_alphabet),
		TEST(values_that_make_no_sense_are_reported_with_their_line),
		TEST(mistakes_in_a_candidate_are_reported_with_its_line),
		TEST(run_and_version_may_stand_in_every_candidate_instead),
		TEST(every_language_that_comes_with_hotcell_loads),
		TEST(a_language_is_found_by_id_or_alias_in_any_case),
		TEST(an_id_wins_over_an_alias_and_a_later_directory_over_an_earlier_one),
		TEST(an_unknown_language_is_told_with_the_nearest_name),
		TEST(the_ending_of_a_file_tells_its_language),
		TEST(a_shebang_tells_the_language_where_the_ending_does_not),
		TEST(a_later_directory_has_an_ending_that_two_languages_claim),
		TEST(expanding_replaces_every_name_that_has_a_value),
		TEST(arguments_become_words_of_their_own),
		TEST(what_is_not_a_known_name_is_left_as_it_is),
		TEST(a_program_is_found_by_path_by_home_or_by_name),
		TEST(what_is_no_executable_file_is_not_a_program),
		TEST(a_candidate_needs_all_its_programs),
		TEST(needs_are_the_paths_that_exist_each_once),
		TEST(what_was_learned_is_known_next_time),
		TEST(a_program_that_changed_is_no_longer_known),
		TEST(a_program_put_in_anothers_place_is_not_known),
		TEST(a_cache_that_others_may_write_is_ignored),
		TEST(a_cache_of_another_user_is_ignored),
		TEST(a_cache_that_is_damaged_is_ignored_and_replaced),
		TEST(a_cache_without_a_place_works_until_it_is_closed),
		TEST(the_directory_of_the_cache_is_made_when_there_is_something_to_keep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
