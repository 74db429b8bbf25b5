/* languages: those that are registered while the service runs, by the same schema as languages/NAME.yaml.
 *
 *	checked ──▶ an engine that has it, too ──▶ its program is asked in a cell ──▶ durable ──▶ that engine takes over
 *
 * One change at a time. */
#ifndef HOTCELL_SERVICE_LANGUAGES_H
#define HOTCELL_SERVICE_LANGUAGES_H

#include "base/err.h"
#include "service/engine.h"

#include <jansson.h>

struct service;

/* Part of a larger struct, which must live until it is told. */
struct languages_change {
	struct service *service;
	char *id;
	char *text; /* NULL: it is removed */
	char *owner;
	struct engine_preparation preparation;
	/* e is NULL if it has taken effect. */
	void (*on_changed)(struct languages_change *change, const char *id, const struct err *e);
};

/* Writes the files of all that the store has. */
int languages_open(struct service *s, struct err *e);
void languages_close(struct service *s);

/* 0: on_changed will be called. -1 with *e: it will not. */
int languages_register(struct service *s, json_t *definition, const char *owner,
	struct languages_change *change, struct err *e);
int languages_unregister(
	struct service *s, const char *id, struct languages_change *change, struct err *e);
bool languages_is_registered(const struct service *s, const char *id);
/* For engines: the new one has taken over, or never will (e is not NULL). */
void languages_taken_over(struct service *s, const struct err *e);

#endif
