/* testing: what the unit tests share. A test is a function whose name is the claim. */
#ifndef HOTCELL_TESTS_TESTING_H
#define HOTCELL_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A directory of its own for each test, removed with all that is in it afterwards. */
struct scratch {
	char path[64];
	int fd;
};

int scratch_make(void **state);
int scratch_clear(void **state);

#define TEST(name)            cmocka_unit_test(name)
#define TEST_IN_SCRATCH(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_clear)

/* "`dir`/`name`", valid until the next call but three. */
const char *in(const char *dir, const char *name);

/* A file beneath `dir_fd` with these bytes. */
void write_file(int dir_fd, const char *name, const char *text);
void make_dir(int dir_fd, const char *name);
/* `count` directories, each in the one before it, all called `name`; the fd of the innermost. */
int make_deep(int dir_fd, const char *name, unsigned count);

/* How many descriptors this process has open: to see that none was left behind. */
unsigned count_open_fds(void);

#endif
