/* err: an error told once, in words, to whoever can act.
 *
 * The object lives on the caller's stack, has a fixed size and is never freed. A function that can
 * fail takes it as its last argument, returns -1 and leaves the sentence in it. Callers may put
 * more context in front with err_wrap() on the way up: "session s1: open '/x': No such file". */
#ifndef HOTCELL_BASE_ERR_H
#define HOTCELL_BASE_ERR_H

#include <stdint.h>

/* What kind of failure it is: decides exit codes and, in the service, the HTTP status. */
enum err_kind {
	ERR_NONE,
	ERR_SYSTEM,      /* the machine failed us */
	ERR_INPUT,       /* the caller asked for something malformed */
	ERR_NOT_FOUND,   /* the caller named something that is not there */
	ERR_UNAVAILABLE, /* understood, but this machine cannot do it */
	ERR_PROTOCOL,    /* a peer sent what it must not send */
	ERR_LIMIT,       /* too large, too many */
	ERR_GONE,        /* the peer is no more */
};

/* What stands between a reason and what its reader can do. For who sits at the machine; a service's clients are given the
 * reason alone. */
#define ERR_ADVICE "; what to do: "

struct err {
	enum err_kind kind;
	int sys_errno; /* 0 unless a system call failed */
	char text[512];
};

/* Each sets *e and returns -1, so that `return err_set(...)` reads well. */
int err_set(struct err *e, enum err_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set(ERR_SYSTEM), with the text of the current errno behind it. */
int err_sys(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of what *e says already. */
int err_wrap(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
