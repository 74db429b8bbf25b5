#include "config/value.h"

#include "base/own.h"
#include "base/units.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

static void *member(const struct config *c, const struct config_row *row)
{
	return (char *)(uintptr_t)c + row->offset;
}

uint64_t *value_number(struct config *c, const struct config_row *row)
{
	return member(c, row);
}

bool value_is_missing(const struct config *c, const struct config_row *row)
{
	return (row->kind == CONFIG_TEXT || row->kind == CONFIG_PATH) && !*(char **)member(c, row);
}

/* ---- what is wanted ---- */

static void tell_size(uint64_t bytes, struct buf *ret)
{
	static const char suffixes[][2] = { "", "K", "M", "G", "T" };
	unsigned power = 0;

	while (bytes && bytes % 1024 == 0 && power < COUNT(suffixes) - 1) {
		bytes /= 1024;
		power++;
	}
	buf_addf(ret, "%" PRIu64 "%s", bytes, suffixes[power]);
}

static void tell_time(uint64_t ms, struct buf *ret)
{
	if (ms == 0)
		buf_add_str(ret, "0");
	else if (ms % 1000)
		buf_addf(ret, "%" PRIu64 "ms", ms);
	else if (ms % 3600000 == 0)
		buf_addf(ret, "%" PRIu64 "h", ms / 3600000);
	else
		buf_addf(ret, "%" PRIu64 "s", ms / 1000);
}

static void tell_number(const struct config_row *row, uint64_t number, struct buf *ret)
{
	if (row->kind == CONFIG_SIZE)
		tell_size(number, ret);
	else if (row->kind == CONFIG_MS || row->kind == CONFIG_S)
		tell_time(row->kind == CONFIG_S ? number * 1000 : number, ret);
	else
		buf_addf(ret, "%" PRIu64, number);
}

static void tell_range(const struct config_row *row, const char *what, struct buf *ret)
{
	buf_addf(ret, "%s from ", what);
	tell_number(row, row->least, ret);
	buf_add_str(ret, " to ");
	tell_number(row, row->most, ret);
}

void value_tell_want(const struct config_row *row, struct buf *ret)
{
	switch (row->kind) {
	case CONFIG_NUMBER:
		tell_range(row, "a number", ret);
		return;
	case CONFIG_SIZE:
		tell_range(row, "a size", ret);
		return;
	case CONFIG_MS:
		tell_range(row, "a time", ret);
		return;
	case CONFIG_S:
		tell_range(row, "a time in whole seconds", ret);
		return;
	case CONFIG_YES_NO:
		buf_add_str(ret, "yes or no");
		return;
	case CONFIG_TEXT:
		buf_addf(ret, "text of %" PRIu64 " to %" PRIu64 " bytes", row->least, row->most);
		return;
	case CONFIG_PATH:
		buf_addf(ret, "a path of at most %" PRIu64 " bytes, absolute in the file",
			row->most);
		return;
	case CONFIG_LIST:
		buf_addf(ret, "a list of %s", row->entries ? row->entries : "texts");
		return;
	case CONFIG_PATHS:
		buf_add_str(ret, "a list of paths, absolute in the file");
		return;
	case CONFIG_CHOICE:
		for (const char *const *at = row->choices; *at; at++)
			buf_addf(ret, "%s%s", at == row->choices ? "" : at[1] ? ", " : " or ", *at);
		return;
	}
}

/* What was typed may be long, or not for a terminal. */
static int wrong(const struct config_row *row, const char *text, struct err *e)
{
	auto_buf struct buf want = { 0 };
	char shown[81];

	snprintf(shown, sizeof(shown), "%s", text);
	for (char *at = shown; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	value_tell_want(row, &want);
	return err_set(
		e, ERR_INPUT, "%s = '%s': want %s (%s)", row->name, shown, want.data, row->meaning);
}

/* ---- numbers ---- */

static int parse_digits(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno ? 0 : -1;
}

static bool has_unit(const char *text)
{
	return *text && isalpha((unsigned char)text[strlen(text) - 1]);
}

static int parse_time(const char *text, bool in_seconds, uint64_t *ret)
{
	struct err e;

	if (!has_unit(text))
		return parse_digits(text, ret);
	if (units_parse_duration(text, ret, &e))
		return -1;
	if (!in_seconds)
		return 0;
	if (*ret % 1000)
		return -1;
	*ret /= 1000;
	return 0;
}

static int parse_number(const struct config_row *row, const struct value *value, uint64_t *ret)
{
	struct err e;

	if (value->scale) {
		if (parse_digits(value->text, ret) || *ret > UINT64_MAX / value->scale)
			return -1;
		*ret *= value->scale;
		return 0;
	}
	if (row->kind == CONFIG_SIZE && has_unit(value->text))
		return units_parse_size(value->text, ret, &e);
	if (row->kind == CONFIG_MS || row->kind == CONFIG_S)
		return parse_time(value->text, row->kind == CONFIG_S, ret);
	return parse_digits(value->text, ret);
}

static int set_number(
	struct config *c, const struct config_row *row, const struct value *value, struct err *e)
{
	uint64_t number;

	if (parse_number(row, value, &number) || number < row->least || number > row->most)
		return wrong(row, value->text, e);
	*value_number(c, row) = number;
	return 0;
}

/* ---- words ---- */

static int set_yes_no(
	struct config *c, const struct config_row *row, const char *text, struct err *e)
{
	static const char *const words[] = { "no", "yes", "false", "true", "0", "1" };
	bool *at = member(c, row);

	for (unsigned i = 0; i < COUNT(words); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*at = i % 2;
			return 0;
		}
	}
	return wrong(row, text, e);
}

static int set_choice(
	struct config *c, const struct config_row *row, const char *text, struct err *e)
{
	unsigned *at = member(c, row);

	for (unsigned i = 0; row->choices[i]; i++) {
		if (strcasecmp(text, row->choices[i]) == 0) {
			*at = i;
			return 0;
		}
	}
	return wrong(row, text, e);
}

/* ---- texts ---- */

/* UTF-8 without controls, and without the few characters that YAML takes for the end of a line or refuses: so that
 * what --print-config prints can be loaded. */
static bool is_decent(const char *text)
{
	static const char *const never[] = { "\x7f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf",
		"\xef\xbf\xbe", "\xef\xbf\xbf" };

	if (!utf8_valid(text, strlen(text)))
		return false;
	for (size_t i = 0; i < COUNT(never); i++)
		if (strstr(text, never[i]))
			return false;
	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		if (*at < ' ' || (*at == 0xc2 && at[1] < 0xa0))
			return false;
	return true;
}

/* The path as it is kept, to be freed; NULL if it is none. */
static char *make_absolute(const char *text, bool in_file)
{
	auto_free char *here = NULL;

	if (text[0] == '/')
		return xstrdup(text);
	if (in_file || !text[0])
		return NULL;
	here = getcwd(NULL, 0);
	return here && here[0] == '/' ? xasprintf("%s/%s", here, text) : NULL;
}

static int set_text(
	struct config *c, const struct config_row *row, const struct value *value, struct err *e)
{
	char **at = member(c, row);
	auto_free char *text = NULL;

	if (!is_decent(value->text))
		return wrong(row, value->text, e);
	if (row->kind == CONFIG_PATH && !(row->none && strcmp(value->text, row->none) == 0))
		text = make_absolute(value->text, value->in_file);
	else
		text = xstrdup(value->text);
	if (!text || strlen(text) < row->least || strlen(text) > row->most)
		return wrong(row, value->text, e);
	free(*at);
	*at = take_ptr(&text);
	return 0;
}

/* ---- lists ---- */

static void list_free(struct config_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->at[i]);
	free(list->at);
	*list = (struct config_list){ 0 };
}

#define auto_list __attribute__((cleanup(list_free)))

static void list_add(struct config_list *list, const char *text)
{
	list->at = xgrow(list->at, (list->count + 2) * sizeof(*list->at));
	list->at[list->count++] = xstrdup(text);
	list->at[list->count] = NULL;
}

static int add_item(struct config_list *list, const struct config_row *row, const char *text,
	bool in_file, struct err *e)
{
	auto_free char *kept = NULL;

	if (is_decent(text) && text[0])
		kept = row->kind == CONFIG_PATHS ? make_absolute(text, in_file) : xstrdup(text);
	if (!kept || strlen(kept) > VALUE_TEXT_MAX || (row->is_entry && !row->is_entry(kept)))
		return wrong(row, text, e);
	if (list->count == VALUE_LIST_MAX)
		return err_set(
			e, ERR_INPUT, "%s: has more than %d entries", row->name, VALUE_LIST_MAX);
	list_add(list, kept);
	return 0;
}

/* "a, b" */
static int add_typed(struct config_list *list, const struct config_row *row, const char *text,
	bool in_file, struct err *e)
{
	const char *at = text + strspn(text, " ");

	if (!*at)
		return 0;
	for (;;) {
		size_t len = strcspn(at, ",");
		size_t trimmed = len;
		auto_free char *item = NULL;

		while (trimmed && at[trimmed - 1] == ' ')
			trimmed--;
		item = xasprintf("%.*s", (int)trimmed, at);
		if (add_item(list, row, item, in_file, e))
			return -1;
		if (!at[len])
			return 0;
		at += len + 1;
		at += strspn(at, " ");
	}
}

static int set_list(
	struct config *c, const struct config_row *row, const struct value *value, struct err *e)
{
	struct config_list *at = member(c, row);
	auto_list struct config_list list = { 0 };
	struct config_list old;

	list.at = xalloc(sizeof(*list.at));
	for (size_t i = 0; value->append && i < at->count; i++)
		list_add(&list, at->at[i]);
	for (size_t i = 0; !value->text && i < value->count; i++)
		if (add_item(&list, row, value->items[i], value->in_file, e))
			return -1;
	if (value->text && add_typed(&list, row, value->text, value->in_file, e))
		return -1;
	old = *at;
	*at = list;
	list = old;
	return 0;
}

/* ---- any ---- */

static bool is_list(const struct config_row *row)
{
	return row->kind == CONFIG_LIST || row->kind == CONFIG_PATHS;
}

int value_set(
	struct config *c, const struct config_row *row, const struct value *value, struct err *e)
{
	if (is_list(row))
		return value->text && value->in_file ? wrong(row, value->text, e) :
						       set_list(c, row, value, e);
	if (!value->text)
		return wrong(row, "a list", e);
	switch (row->kind) {
	case CONFIG_YES_NO:
		return set_yes_no(c, row, value->text, e);
	case CONFIG_CHOICE:
		return set_choice(c, row, value->text, e);
	case CONFIG_TEXT:
	case CONFIG_PATH:
		return set_text(c, row, value, e);
	default:
		return set_number(c, row, value, e);
	}
}

void value_free(struct config *c, const struct config_row *row)
{
	if (is_list(row))
		list_free(member(c, row));
	else if (row->kind == CONFIG_TEXT || row->kind == CONFIG_PATH)
		own_free(member(c, row));
}

/* Nothing but these two has a meaning within double quotes, since controls were refused. */
static void tell_quoted(const char *text, struct buf *ret)
{
	buf_add_str(ret, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_str(ret, "\\");
		buf_add(ret, text, 1);
	}
	buf_add_str(ret, "\"");
}

static void tell_list(const struct config_list *list, struct buf *ret)
{
	buf_add_str(ret, "[");
	for (size_t i = 0; i < list->count; i++) {
		if (i)
			buf_add_str(ret, ", ");
		tell_quoted(list->at[i], ret);
	}
	buf_add_str(ret, "]");
}

void value_tell(const struct config *c, const struct config_row *row, struct buf *ret)
{
	const void *at = member(c, row);

	switch (row->kind) {
	case CONFIG_YES_NO:
		buf_add_str(ret, *(const bool *)at ? "yes" : "no");
		return;
	case CONFIG_CHOICE:
		buf_add_str(ret, row->choices[*(const unsigned *)at]);
		return;
	case CONFIG_TEXT:
	case CONFIG_PATH:
		tell_quoted(*(char *const *)at, ret);
		return;
	case CONFIG_LIST:
	case CONFIG_PATHS:
		tell_list(at, ret);
		return;
	case CONFIG_SIZE:
		tell_size(*(const uint64_t *)at, ret);
		return;
	default:
		buf_addf(ret, "%" PRIu64, *(const uint64_t *)at);
	}
}
