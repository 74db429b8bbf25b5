/* key_languages: whether the languages that a key is bound to are there. */
#ifndef HOTCELL_CLI_KEY_LANGUAGES_H
#define HOTCELL_CLI_KEY_LANGUAGES_H

#include "config/config.h"
#include "service/rights.h"
#include "store/store.h"

/* Says on stderr which of them a service with these settings does not know. No more than that: one that is registered
 * later may be meant. */
void key_languages_warn(const struct config *c, struct store *s, const struct rights *r);

#endif
