/* rights: what a key may do, and how much of it. Kept by the store as JSON, each of which may be left out:
 *
 *	{"runs_per_minute":60,"max_sessions":10,"max_stored_bytes":1048576,"weakest_isolation":"container",
 *	 "languages":["python"],"network":"none","admin":false}
 */
#ifndef HOTCELL_SERVICE_RIGHTS_H
#define HOTCELL_SERVICE_RIGHTS_H

#include "base/err.h"
#include "hotcell.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RIGHTS_LANGUAGES_MAX = 64, RIGHTS_LANGUAGE_LEN = 32 };

struct rights {
	uint64_t runs_per_minute;  /* 0: as many as it likes; so for the next two */
	uint64_t max_sessions;     /* at one time */
	uint64_t max_stored_bytes; /* in files that have not expired */
	enum hotcell_isolation weakest_isolation;
	char languages[RIGHTS_LANGUAGES_MAX][RIGHTS_LANGUAGE_LEN + 1]; /* ids */
	unsigned languages_count;                                      /* 0: all of them */
	enum hotcell_network network;                                  /* the widest */
	bool admin;                                                    /* may register languages */
};

/* Of a key that was given none: no quotas, all languages, container isolation and no network. */
void rights_set_default(struct rights *r);
/* Everything: the local user's, and everybody's where there are no keys. */
void rights_set_all(struct rights *r);

/* Refuses names that it does not know: what a later version wrote there may be a restriction. */
int rights_parse(const char *json, struct rights *ret, struct err *e);
/* To be freed. */
char *rights_format(const struct rights *r);

/* Adds an id; ERR_INPUT if it cannot be one. */
int rights_add_language(struct rights *r, const char *id, struct err *e);
/* "vm", "container" or "process"; "none" or "host". -1 for another word. */
int rights_parse_isolation(const char *word, enum hotcell_isolation *ret);
int rights_parse_network(const char *word, enum hotcell_network *ret);

/* What `auto` means for this key: where only a vm will do, it must not end in a container. */
enum hotcell_isolation rights_auto(const struct rights *r);
/* True for HOTCELL_ISOLATION_AUTO, which see above. */
bool rights_allow_isolation(const struct rights *r, enum hotcell_isolation isolation);
bool rights_allow_language(const struct rights *r, const char *id);
bool rights_allow_network(const struct rights *r, enum hotcell_network network);

#endif
