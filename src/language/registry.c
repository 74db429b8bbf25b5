/* Directories are read in order. A language replaces an earlier one of the same id; where two claim
 * the same alias, ending or shebang, the one of the later directory has it, and within a directory
 * the first by id: a user's own file always wins over what came with hotcell. */
#include "language/schema.h"

#include "base/near.h"
#include "base/own.h"
#include "base/path.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

enum { MAX_FILES_PER_DIR = 256, MAX_SHEBANG = 256 };

struct entry {
	struct language *language;
	unsigned dir; /* which directory it is from: the higher wins */
};

struct registry {
	struct entry *at;
	unsigned count;
};

struct loading {
	struct registry *registry;
	unsigned dir;
	void (*on_problem)(void *context, const char *text);
	void *context;
};

static void tell(const struct loading *l, const char *text)
{
	if (l->on_problem)
		l->on_problem(l->context, text);
}

static struct entry *find_id(const struct registry *r, const char *id)
{
	for (unsigned i = 0; i < r->count; i++)
		if (strcasecmp(r->at[i].language->id, id) == 0)
			return &r->at[i];
	return NULL;
}

static void add(const struct loading *l, struct language *language)
{
	struct registry *r = l->registry;
	struct entry *same = find_id(r, language->id);
	struct err e;

	if (same && same->dir == l->dir) {
		err_set(&e, ERR_INPUT, "%s: id: '%s' stands already in %s", language->path,
			language->id, path_base(same->language->path));
		tell(l, e.text);
		schema_free(language);
		return;
	}
	if (!same) {
		r->at = xgrow(r->at, (r->count + 1) * sizeof(*r->at));
		same = &r->at[r->count++];
		same->language = NULL;
	}
	schema_free(same->language);
	*same = (struct entry){ .language = language, .dir = l->dir };
}

static int is_language_file(const struct dirent *file)
{
	const char *ending = strrchr(file->d_name, '.');

	if (file->d_name[0] == '.' || !ending)
		return 0;
	return strcmp(ending, ".yaml") == 0 || strcmp(ending, ".yml") == 0;
}

/* By bytes: alphasort() would follow the user's locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_dir(const struct loading *l, const char *dir)
{
	auto_free struct dirent **files = NULL;
	int count = scandir(dir, &files, is_language_file, by_name);
	struct err e;

	if (count < 0) {
		if (errno != ENOENT && errno != ENOTDIR) {
			err_sys(&e, "open directory '%s'", dir);
			tell(l, e.text);
		}
		return;
	}
	if (count > MAX_FILES_PER_DIR) {
		err_set(&e, ERR_LIMIT, "%s: has more than %d files; the rest is left out", dir,
			MAX_FILES_PER_DIR);
		tell(l, e.text);
	}
	for (int i = 0; i < count; i++) {
		auto_free struct dirent *file = files[i];
		auto_free char *path = path_join(dir, file->d_name);
		struct language *language;

		if (i >= MAX_FILES_PER_DIR)
			continue;
		language = schema_load(path, &e);
		if (language)
			add(l, language);
		else
			tell(l, e.text);
	}
}

static int by_id(const void *a, const void *b)
{
	const struct entry *x = a;
	const struct entry *y = b;

	return strcmp(x->language->id, y->language->id);
}

struct registry *registry_load_one(const char *dir, const char *id)
{
	struct loading l = { .registry = xalloc(sizeof(struct registry)) };
	auto_free char *name = xasprintf("%s.yaml", id);
	auto_free char *path = path_join(dir, name);
	struct err ignored;
	struct language *language;

	/* What is no id cannot be a file's name either. */
	if (strchr(id, '/') || access(path, R_OK) || !(language = schema_load(path, &ignored))) {
		free(l.registry);
		return NULL;
	}
	add(&l, language);
	if (strcmp(l.registry->at[0].language->id, id) == 0)
		return l.registry;
	registry_free(l.registry);
	return NULL;
}

struct registry *registry_load(const char *const *dirs, unsigned dirs_count,
	void (*on_problem)(void *context, const char *text), void *context)
{
	struct registry *r = xalloc(sizeof(*r));
	struct loading l = { .registry = r, .on_problem = on_problem, .context = context };

	for (; l.dir < dirs_count; l.dir++)
		load_dir(&l, dirs[l.dir]);
	if (r->count)
		qsort(r->at, r->count, sizeof(*r->at), by_id);
	return r;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->count; i++)
		schema_free(r->at[i].language);
	free(r->at);
	free(r);
}

unsigned registry_count(const struct registry *r)
{
	return r->count;
}

const struct language *registry_at(const struct registry *r, unsigned i)
{
	return i < r->count ? r->at[i].language : NULL;
}

/* The best claim so far: higher is better, then the later directory, then the first by id. */
struct claim {
	const struct entry *entry;
	size_t strength;
};

static void claim(struct claim *best, const struct entry *entry, size_t strength)
{
	if (strength == 0 || strength < best->strength)
		return;
	if (!best->entry || strength > best->strength || entry->dir > best->entry->dir)
		*best = (struct claim){ .entry = entry, .strength = strength };
}

/* `strength_of` says how well one of `list` fits `what`; 0 = not at all. */
static void claim_any(struct claim *best, const struct entry *entry, const struct strings *list,
	const char *what, size_t (*strength_of)(const char *one, const char *what))
{
	for (unsigned i = 0; i < list->count; i++)
		claim(best, entry, strength_of(list->at[i], what));
}

static const struct language *winner(const struct claim *best)
{
	return best->entry ? best->entry->language : NULL;
}

static size_t alias_strength(const char *alias, const char *name)
{
	return strcasecmp(alias, name) == 0;
}

static void tell_unknown(const struct registry *r, const char *name, struct err *e)
{
	struct near n = { .typed = name };
	char shown[65];

	snprintf(shown, sizeof(shown), "%s", name);
	for (char *at = shown; *at; at++)
		if (iscntrl((unsigned char)*at))
			*at = '?';
	for (unsigned i = 0; i < r->count; i++)
		near_offer(&n, r->at[i].language->id);
	for (unsigned i = 0; i < r->count; i++)
		for (unsigned k = 0; k < r->at[i].language->aliases.count; k++)
			near_offer(&n, r->at[i].language->aliases.at[k]);
	if (n.best)
		err_set(e, ERR_NOT_FOUND, "unknown language '%s'; did you mean %s?", shown, n.best);
	else
		err_set(e, ERR_NOT_FOUND, "unknown language '%s'", shown);
}

const struct language *registry_find(const struct registry *r, const char *name, struct err *e)
{
	const struct entry *exact = find_id(r, name);
	struct claim best = { 0 };

	if (exact)
		return exact->language;
	for (unsigned i = 0; i < r->count; i++)
		claim_any(&best, &r->at[i], &r->at[i].language->aliases, name, alias_strength);
	if (!best.entry)
		tell_unknown(r, name, e);
	return winner(&best);
}

/* Longer endings fit better, and among equal ones the exact case: x.C may differ from x.c. */
static size_t ending_strength(const char *ending, const char *base)
{
	size_t len = strlen(ending);
	size_t base_len = strlen(base);
	const char *tail;

	if (base_len <= len)
		return 0;
	tail = base + base_len - len;
	if (strcasecmp(tail, ending) != 0)
		return 0;
	return 2 * len + (strcmp(tail, ending) == 0);
}

/* "python3" fits python3, and with a version behind it python3.11 and (less well) "python". */
static size_t shebang_strength(const char *shebang, const char *program)
{
	size_t len = strlen(shebang);

	if (strncmp(program, shebang, len) != 0)
		return 0;
	return strspn(program + len, "0123456789.") == strlen(program + len) ? len : 0;
}

/* The interpreter's name in "#!/usr/bin/env -S python3 -u" or "#!/bin/bash". NULL if none. */
static const char *shebang_program(char *line)
{
	char *rest;
	char *word;

	if (strncmp(line, "#!", 2) != 0)
		return NULL;
	line[strcspn(line, "\r\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (!word || strcmp(path_base(word), "env") != 0)
		return word ? path_base(word) : NULL;
	do
		word = strtok_r(NULL, " \t", &rest);
	while (word && (word[0] == '-' || strchr(word, '=')));
	return word ? path_base(word) : NULL;
}

const struct language *registry_guess(
	const struct registry *r, const char *path, const char *code, size_t code_len)
{
	char line[MAX_SHEBANG + 1];
	const char *program;
	struct claim best = { 0 };

	for (unsigned i = 0; path && i < r->count; i++)
		claim_any(&best, &r->at[i], &r->at[i].language->endings, path_base(path),
			ending_strength);
	if (best.entry || !code)
		return winner(&best);
	if (code_len > MAX_SHEBANG)
		code_len = MAX_SHEBANG;
	memcpy(line, code, code_len);
	line[code_len] = '\0';
	program = shebang_program(line);
	for (unsigned i = 0; program && i < r->count; i++)
		claim_any(
			&best, &r->at[i], &r->at[i].language->shebangs, program, shebang_strength);
	return winner(&best);
}

char *language_user_dir(void)
{
	const char *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (config && config[0] == '/')
		return path_join(config, "hotcell/languages");
	return home && home[0] == '/' ? xasprintf("%s/.config/hotcell/languages", home) : NULL;
}
