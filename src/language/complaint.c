/* libcyaml 1.3 logs a message and then the way to it, from the inside out:
 *
 *	Load: Unexpected key: alos
 *	Load: Backtrace:
 *	  in mapping (line: 4, column: 14)
 *	  in sequence entry '1' (line: 4, column: 5)
 *	  in mapping field 'find' (line: 4, column: 3)
 *
 * The line is that of the last thing that it accepted, so a key that it rejects stands on that line
 * or below. Messages that a later libcyaml words differently are passed on as they are. */
#include "language/complaint.h"

#include "base/near.h"
#include "base/own.h"
#include "language/lines.h"

#include <stdio.h>
#include <string.h>

static const char *behind(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) ? NULL : text + len;
}

/* One line of the way: "  in mapping field 'find' (line: 4, column: 3)". */
static void note_way(struct complaint *c, const char *way)
{
	const char *line = strstr(way, "(line: ");
	const char *key = behind(way, "  in mapping field '");

	if (line && !c->line)
		sscanf(line, "(line: %9u", &c->line);
	if (behind(way, "  in sequence entry"))
		c->in_entry = true;
	if (key && !c->key[0])
		snprintf(c->key, sizeof(c->key), "%.*s", (int)strcspn(key, "'"), key);
}

void complaint_log(cyaml_log_t level, void *complaint, const char *format, va_list args)
{
	struct complaint *c = complaint;
	const char *text;
	char line[256];

	if (level < CYAML_LOG_WARNING)
		return;
	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = '\0';
	text = behind(line, "Load: ");
	if (strncmp(line, "  in ", 5) == 0)
		note_way(c, line);
	else if (!c->message[0] && strcmp(line, "Load: Backtrace:") != 0)
		snprintf(c->message, sizeof(c->message), "%s", text ? text : line);
}

/* The messages that name the key themselves. */
static const struct {
	const char *prefix;
	const char *what;
	bool is_unknown;
	bool is_missing;
} about_keys[] = {
	{ "Unexpected key: ", "unknown key", true, false },
	{ "Missing required mapping field: ", "is missing", false, true },
	{ "Mapping field already seen: ", "stands here twice", false, false },
};

/* The others; the first that fits counts. What follows is dropped, except where it is the value. */
static const struct {
	const char *prefix;
	const char *what;
	bool tells_value;
} about_values[] = {
	{ "Expecting SEQUENCE", "want a list such as [a, b]", false },
	{ "Expecting MAPPING", "want keys with values", false },
	{ "Expecting STRING, got event: MAPPING", "want text; words with braces need quotes",
		false },
	{ "Expecting STRING", "want text", false },
	{ "Expecting UINT", "want a whole number", false },
	{ "Expecting ENUM", "want yes or no", false },
	{ "Invalid ENUM value: ", "want yes or no, not ", true },
	{ "Invalid uint64_t value: ", "want a whole number, not ", true },
	{ "STRING length < ", "must not be empty", false },
	{ "STRING length > ", "is too long", false },
	{ "Excessive entries", "has too many entries", false },
	{ "Insufficient entries", "must not be empty", false },
	{ "Ignoring documents", "want one document, but here a second one begins", false },
	{ "libyaml: ", "not valid YAML, here or a little below: ", true },
};

static int tell_key(
	const struct complaint *c, size_t row, const struct complaint_subject *about, struct err *e)
{
	const char *key = c->message + strlen(about_keys[row].prefix);
	unsigned line = lines_find_key(about->text, key, c->line);
	struct near n = { .typed = key };

	if (about_keys[row].is_missing) /* it stands nowhere: show the mapping it belongs to */
		line = c->in_entry ? c->line : 1;
	if (about_keys[row].is_unknown)
		for (const char *const *known = about->keys; *known; known++)
			near_offer(&n, *known);
	return err_set(e, ERR_INPUT, "%s:%u: %s: %s%s%s%s", about->path, line ? line : c->line, key,
		about_keys[row].what, n.best ? "; did you mean " : "", n.best ? n.best : "",
		n.best ? "?" : "");
}

static int tell_value(const struct complaint *c, const char *what, const char *value,
	const struct complaint_subject *about, struct err *e)
{
	unsigned line = c->line ? c->line : 1;

	return err_set(e, ERR_INPUT, "%s:%u: %s%s%s%s", about->path, line, c->key,
		c->key[0] ? ": " : "", what, value);
}

int complaint_tell(const struct complaint *c, cyaml_err_t code,
	const struct complaint_subject *about, struct err *e)
{
	for (size_t i = 0; i < COUNT(about_keys); i++)
		if (behind(c->message, about_keys[i].prefix))
			return tell_key(c, i, about, e);
	for (size_t i = 0; i < COUNT(about_values); i++) {
		const char *value = behind(c->message, about_values[i].prefix);

		if (value)
			return tell_value(c, about_values[i].what,
				about_values[i].tells_value ? value : "", about, e);
	}
	if (code == CYAML_ERR_ALIAS)
		return tell_value(c, "anchors and aliases (& and *) are not allowed", "", about, e);
	return tell_value(c, c->message[0] ? c->message : cyaml_strerror(code), "", about, e);
}
