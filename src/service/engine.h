/* engine: libhotcell on the loop.
 *
 * Languages are read when an engine is opened, so another set of them takes another engine: the new one warms up
 * beside the old one, then takes its place; the old one lives as long as anything of it does. */
#ifndef HOTCELL_SERVICE_ENGINE_H
#define HOTCELL_SERVICE_ENGINE_H

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "hotcell.h"

#include <stdbool.h>
#include <uv.h>

struct service;
struct engine;
struct languages_change;

/* Something that an engine does; part of a larger struct. */
struct engine_op {
	struct list link;
	struct engine *engine;
	struct hotcell_work *work; /* NULL: it does nothing now */
	/* Exactly one of them is not NULL. The result is the callee's. */
	void (*on_done)(struct engine_op *op, struct hotcell_result *result,
		const struct hotcell_error *failure);
};

/* Something that an engine gets ready; part of a larger struct. */
struct engine_preparation {
	struct list link;
	struct engine *engine; /* NULL: none does */
	struct hotcell_preparation *preparation;
	/* `failure` is NULL if it is ready. */
	void (*on_done)(
		struct engine_preparation *preparation, const struct hotcell_error *failure);
};

struct engine {
	struct list link;
	struct service *service;
	struct hotcell *hotcell;
	uv_poll_t poll;
	uv_idle_t soon; /* active while something was done before it was waited for */
	struct list ops;
	struct hotcell_language *languages;
	size_t languages_count;
	struct list preparations;
	struct engine_preparation warming; /* the next of the config's `warm` */
	size_t warmed;                     /* how many of them are ready, or cannot be */
	bool is_warm;                      /* all of them */
	struct map wanted;   /* "language:profile" that runs have asked for, listed or not */
	size_t asked;        /* how many languages have told their version */
	unsigned references; /* cells of pools and sessions, and ops */
	bool is_closing;
};

struct engines {
	struct engine *current;
	struct engine *next; /* warms up to take its place */
	struct list old;
	char *languages_dir;             /* of those that were registered at run time */
	char *trial_dir;                 /* of one that is about to be */
	struct map registered;           /* their ids */
	struct languages_change *change; /* under way, or NULL */
};

int engines_open(struct service *s, struct err *e);
/* Reads languages anew. Takes effect when the new engine is warm. */
int engines_reload(struct service *s, struct err *e);
/* The same in steps: opens it, with one directory of languages more (NULL: none); lets it get warm and take over; or
 * gives it up. */
int engines_open_next(struct service *s, const char *more_languages, struct err *e);
void engines_warm_next(struct service *s);
void engines_forget_next(struct service *s);
/* Every second: wardens that have died are started again. */
void engines_mend(struct service *s);
void engines_close(struct service *s);

struct hotcell_language *engine_language(const struct engine *n, const char *name);

/* Returns 0, and on_done is called later, or -1 and it is not. */
int engine_prepare(struct engine *n, const struct hotcell_request *q, struct engine_preparation *p,
	struct hotcell_error *e);
/* Makes a snapshot for such runs in the background, unless that was tried before. */
void engine_want(struct engine *n, const char *language, const char *profile);
/* Each returns 0, and op->on_done is called later, or -1 and it is not. */
int engine_run(struct engine *n, const struct hotcell_request *q, struct engine_op *op,
	struct hotcell_error *e);
int engine_files(struct engine *n, struct hotcell_cell *cell, const struct hotcell_files *what,
	struct engine_op *op, struct hotcell_error *e);
/* The op ends soon, as cancelled. */
void engine_cancel(struct engine_op *op);
/* Gives up on it: on_done is not called. */
void engine_abandon(struct engine_op *op);
void engine_hold(struct engine *n);
void engine_release(struct engine *n);

#endif
