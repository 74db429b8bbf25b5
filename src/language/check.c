/* What a YAML schema cannot say about a language file. Each check names the key that is wrong; the
 * line is looked up in the text only then. */
#include "language/schema.h"

#include "base/own.h"
#include "base/path.h"
#include "language/lines.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	NAME_MAX_BYTES = 32,
	MAX_SECONDS = 3600,
	MAX_MEMORY_MB = 1024 * 1024,
	MAX_PROCESSES = 32768,
};

static const char letters_id[] = "abcdefghijklmnopqrstuvwxyz0123456789+_-";
static const char letters_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789+#._-";

struct check {
	const char *path;
	const char *text;
	unsigned candidate; /* 1 = the first entry of find; 0 = the keys outside it */
	struct err *e;
};

/* An entry of find begins, as a rule, with its program. */
static unsigned line_of(const struct check *c, const char *key)
{
	unsigned line = lines_find_top_key(c->text, c->candidate ? "find" : key);
	unsigned below;

	for (unsigned i = 0; i < c->candidate; i++) {
		below = lines_find_key(c->text, "program", i ? line + 1 : line);
		line = below ? below : line;
	}
	if (line && !c->candidate)
		return line;
	below = lines_find_key(c->text, key, line ? line : 1);
	return below ? below : line ? line : 1;
}

static int __attribute__((format(printf, 3, 4)))
wrong(const struct check *c, const char *key, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return err_set(c->e, ERR_INPUT, "%s:%u: %s: %s", c->path, line_of(c, key), key, what);
}

static bool is_made_of(const char *text, const char *letters)
{
	size_t len = strlen(text);

	return len > 0 && len <= NAME_MAX_BYTES && strspn(text, letters) == len;
}

/* These are shown to people: no control characters, in particular no terminal escapes. */
static int check_shown(const struct check *c, const char *key, const char *text)
{
	for (const char *at = text; at && *at; at++)
		if (iscntrl((unsigned char)*at))
			return wrong(c, key, "has a control character");
	return 0;
}

/* "/absolute", "~/below/home", and for programs a bare "name". */
static bool is_place(const char *text, bool may_be_bare)
{
	const char *up = strstr(text, "/..");

	if (up && (up[3] == '/' || up[3] == '\0'))
		return false;
	if (text[0] == '/' || (text[0] == '~' && text[1] == '/'))
		return text[1] && text[strlen(text) - 1] != '/';
	return may_be_bare && text[0] && !strchr(text, '/');
}

static int check_identity(const struct check *c, const struct language *l)
{
	struct err inner;

	if (!is_made_of(l->id, letters_id))
		return wrong(c, "id", "want 1 to %d of a-z, 0-9, '+', '_', '-'", NAME_MAX_BYTES);
	if (check_shown(c, "name", l->name) || check_shown(c, "install", l->install))
		return -1;
	for (unsigned i = 0; i < l->aliases.count; i++)
		if (!is_made_of(l->aliases.at[i], letters_name))
			return wrong(c, "aliases", "'%.40s': want 1 to %d letters, digits or +#._-",
				l->aliases.at[i], NAME_MAX_BYTES);
	if (path_check_relative(l->file, strlen(l->file), &inner))
		return wrong(c, "file", "'%.40s': %s", l->file, inner.text);
	if (l->driver && !is_made_of(l->driver, letters_id))
		return wrong(c, "driver", "want the name of a directory under drivers/");
	return check_shown(c, "file", l->file);
}

static int check_guessing(const struct check *c, const struct language *l)
{
	for (unsigned i = 0; i < l->endings.count; i++) {
		const char *ending = l->endings.at[i];

		if (ending[0] != '.' || !ending[1] || strchr(ending, '/'))
			return wrong(c, "endings", "'%.40s': want a dot and a name, such as .py",
				ending);
	}
	for (unsigned i = 0; i < l->shebangs.count; i++)
		if (!is_made_of(l->shebangs.at[i], letters_name))
			return wrong(c, "shebangs", "'%.40s': want a program's name without a path",
				l->shebangs.at[i]);
	return 0;
}

static int check_env(const struct check *c, const struct language *l)
{
	for (unsigned i = 0; i < l->env.count; i++) {
		const char *entry = l->env.at[i];
		size_t len = strcspn(entry, "=");

		if (entry[len] != '=' || len == 0 || isdigit((unsigned char)entry[0]) ||
			strspn(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_") != len)
			return wrong(c, "env", "'%.40s': want NAME=value", entry);
	}
	return 0;
}

static int check_limits(const struct check *c, const struct language *l)
{
	const struct compile_limits *compile = &l->compile_limits;

	if (l->memory_mb > MAX_MEMORY_MB)
		return wrong(c, "memory_mb", "want a whole number up to %d", MAX_MEMORY_MB);
	if (l->processes > MAX_PROCESSES)
		return wrong(c, "processes", "want a whole number up to %d", MAX_PROCESSES);
	if (compile->timeout_s > MAX_SECONDS || compile->memory_mb > MAX_MEMORY_MB ||
		compile->processes > MAX_PROCESSES)
		return wrong(c, "compile_limits",
			"want timeout_s up to %d, memory_mb up to %d, processes up to %d",
			MAX_SECONDS, MAX_MEMORY_MB, MAX_PROCESSES);
	return 0;
}

static int check_needs(const struct check *c, const struct strings *needs)
{
	for (unsigned i = 0; i < needs->count; i++)
		if (!is_place(needs->at[i], false))
			return wrong(c, "needs",
				"'%.40s': want a path that begins with / or ~/ and "
				"has no '..' and no '/' at its end",
				needs->at[i]);
	return 0;
}

/* A program that only a compile step makes cannot be run without one. */
static int check_commands(
	const struct check *c, const struct language *l, const struct candidate *from)
{
	const struct strings *run = from->run.count ? &from->run : &l->run;
	bool compiles = from->compile.count || l->compile.count;

	if (!run->count)
		return wrong(c, "run", "is missing, both here and in the language");
	if (!from->version.count && !l->version.count)
		return wrong(c, "version", "is missing, both here and in the language");
	for (unsigned i = 0; i < run->count && !compiles; i++)
		if (strstr(run->at[i], "{out}"))
			return wrong(c, "run", "uses {out}, but there is no compile to make it");
	return 0;
}

static int check_candidate(
	const struct check *c, const struct language *l, const struct candidate *from)
{
	if (!is_place(from->program, true))
		return wrong(c, "program",
			"'%.40s': want a path that begins with / or ~/, or a name", from->program);
	for (unsigned i = 0; i < from->also.count; i++)
		if (!is_place(from->also.at[i], true))
			return wrong(c, "also",
				"'%.40s': want a path that begins with / or ~/, or a name",
				from->also.at[i]);
	return check_needs(c, &from->needs) ? -1 : check_commands(c, l, from);
}

int check_language(const struct language *l, const char *path, const char *text, struct err *e)
{
	struct check c = { .path = path, .text = text, .e = e };

	if (check_identity(&c, l) || check_guessing(&c, l) || check_env(&c, l) ||
		check_limits(&c, l) || check_needs(&c, &l->needs))
		return -1;
	for (unsigned i = 0; i < l->find_count; i++) {
		c.candidate = i + 1;
		if (check_candidate(&c, l, &l->find[i]))
			return -1;
	}
	return 0;
}
