#include "vmm/started.h"

#include "vmm/snapshot.h"
#include "vmm/warm.h"

#include <stdlib.h>
#include <string.h>

static const char workspace[] = "/workspace/";

/* What is left of a request. Fields end with a NUL; whatever is behind the last one is none. */
struct fields {
	const char *at;
	const char *end;
};

static const char *next_field(struct fields *f)
{
	const char *field = f->at;
	const char *end = memchr(field, '\0', (size_t)(f->end - field));

	if (!end)
		return NULL;
	f->at = end + 1;
	return field;
}

static unsigned long next_count(struct fields *f)
{
	const char *field = next_field(f);

	return field ? strtoul(field, NULL, 10) : 0;
}

static void add(struct buf *ret, const char *text)
{
	buf_add(ret, text, strlen(text) + 1);
}

static void add_all(struct buf *ret, const char *const *strings)
{
	for (; strings && *strings; strings++)
		add(ret, *strings);
}

void started_words(const struct guest *g, struct buf *ret)
{
	struct fields f;
	const char *path;
	size_t size;
	unsigned long count;

	add_all(ret, g->argv);
	f.at = g->argv ? NULL : (const char *)warm_request(&size);
	if (!f.at)
		return;
	f.end = f.at + size;
	next_field(&f); /* flags */
	path = next_field(&f);
	if (!path)
		return;
	/* As the driver tells its program (sys.orig_argv). */
	if (strncmp(path, workspace, sizeof(workspace) - 1) == 0)
		path += sizeof(workspace) - 1;
	add(ret, snapshot_words()[0]);
	add(ret, path);
	count = next_count(&f);
	for (const char *word; count-- && (word = next_field(&f));)
		add(ret, word);
}

/* The last setting of the same name among `count` fields; NULL if there is none. */
static const char *find_setting(struct fields f, unsigned long count, const char *setting)
{
	size_t len = strcspn(setting, "=");
	const char *found = NULL;

	for (const char *one; count-- && (one = next_field(&f));)
		if (strncmp(one, setting, len) == 0 && one[len] == '=')
			found = one;
	return found;
}

static bool is_set(const char *const *settings, const char *setting)
{
	size_t len = strcspn(setting, "=") + 1;

	for (; *settings; settings++)
		if (strncmp(*settings, setting, len) == 0)
			return true;
	return false;
}

void started_environment(const struct guest *g, struct buf *ret)
{
	const char *const *usual;
	struct fields f;
	struct fields rest;
	size_t size;
	unsigned long count;

	add_all(ret, g->environment);
	f.at = g->argv ? NULL : (const char *)warm_request(&size);
	if (!f.at)
		return;
	f.end = f.at + size;
	next_field(&f);
	next_field(&f);
	for (count = next_count(&f); count && next_field(&f); count--)
		;
	count = next_count(&f);
	usual = snapshot_words() + 1;
	for (const char *const *at = usual; *at; at++) {
		const char *other = find_setting(f, count, *at);

		add(ret, other ? other : *at);
	}
	rest = f;
	for (unsigned long i = 0; i < count; i++) {
		const char *one = next_field(&rest);

		if (!one)
			return;
		if (!is_set(usual, one) && find_setting(f, count, one) == one)
			add(ret, one);
	}
}
