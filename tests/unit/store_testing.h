/* What the tests of the store share. */
#ifndef HOTCELL_TESTS_STORE_TESTING_H
#define HOTCELL_TESTS_STORE_TESTING_H

#include "testing.h"

#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* In a child, where an assertion of cmocka's would go on with the parent's tests. */
#define CHECK(fact)                                                                                \
	do {                                                                                       \
		if (!(fact)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #fact);         \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Ends with 0 unless a CHECK fails. */
void in_a_child(void (*body)(const char *dir), const char *dir);

struct told {
	unsigned times;
	unsigned failures;
	struct err e; /* of the last that failed */
};

/* A store_done for a struct told. */
void tell(void *told, const struct err *e);
/* Until it was told `times` times. */
void wait_until_told(struct store *s, const struct told *told, unsigned times);

/* These work in children too. */
struct store *open_store(const char *dir);
int blob_of(struct store *s, const void *bytes, size_t size);
/* `expires_s` 0 = never. Does not wait. */
void add_file(
	struct store *s, const char *id, const char *bytes, double expires_s, struct told *told);
/* Waits; 0, or -1 with *e. Of the owner "me". */
int keep_file(struct store *s, const char *id, const char *bytes, struct err *e);
int remove_file(struct store *s, const char *id, struct err *e);
/* Whether it is there, with these bytes. */
bool has_file(struct store *s, const char *id, const char *bytes);
/* How many files there are beneath DIR/files. */
unsigned count_bytes(const char *dir);
double now_s(void);

#endif
