#include "cli/key_languages.h"

#include "base/buf.h"
#include "base/own.h"
#include "supervisor/places.h"

#include <stdio.h>
#include <string.h>

struct known {
	struct registry *files;
	struct store_language *registered;
	size_t registered_count;
};

static struct registry *load_files(const struct config *c)
{
	struct places places = { 0 };
	struct err ignored;
	struct registry *found =
		places_find(&places, &ignored) ? NULL : places_languages(places.share, c);

	places_free(&places);
	return found;
}

/* An alias is none: rights are held against ids. */
static bool is_known(const struct known *k, const char *id)
{
	for (unsigned i = 0; i < registry_count(k->files); i++)
		if (strcmp(registry_at(k->files, i)->id, id) == 0)
			return true;
	for (size_t i = 0; i < k->registered_count; i++)
		if (strcmp(k->registered[i].id, id) == 0)
			return true;
	return false;
}

static void tell_unknown(const struct known *k, const char *id)
{
	auto_buf struct buf ids = { 0 };

	for (unsigned i = 0; i < registry_count(k->files); i++)
		buf_addf(&ids, "%s%s", ids.len ? ", " : "", registry_at(k->files, i)->id);
	for (size_t i = 0; i < k->registered_count; i++)
		buf_addf(&ids, "%s%s", ids.len ? ", " : "", k->registered[i].id);
	fprintf(stderr,
		"hotcell: warning: no language has the id '%s' here, unless one is registered later; there are: %s\n",
		id, ids.data ? ids.data : "none");
}

void key_languages_warn(const struct config *c, struct store *s, const struct rights *r)
{
	struct known k = { 0 };
	struct err ignored;

	if (r->languages_count == 0)
		return;
	k.files = load_files(c);
	if (!k.files)
		return;
	if (store_list_languages(s, &k.registered, &k.registered_count, &ignored))
		k.registered_count = 0;
	for (unsigned i = 0; i < r->languages_count; i++)
		if (!is_known(&k, r->languages[i]))
			tell_unknown(&k, r->languages[i]);
	store_languages_free(k.registered, k.registered_count);
	registry_free(k.files);
}
