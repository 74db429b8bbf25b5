/* What people read: --print-config and --help. tools/config-docs makes the manual from the former. */
#include "config/config.h"

#include "base/buf.h"
#include "base/own.h"
#include "config/value.h"

#include <ctype.h>

enum { WIDTH = 100, HELP_WIDTH = 79, HELP_COLUMN = 29 };

/* `text` in lines of at most `width`, each behind `indent`; the first one begins in column `at`. */
static void print_wrapped(FILE *to, const char *text, const char *indent, size_t at, size_t width)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (at + 1 + len > width) {
			fprintf(to, "\n%s", indent);
			at = strlen(indent);
		}
		fprintf(to, " %.*s", (int)len, text);
		at += 1 + len;
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', to);
}

static const char *told_default(const struct config_row *row)
{
	return *row->by_default ? row->by_default : "none";
}

/* "TCP port of the HTTP API. Want a number from 1 to 65535. Default: 8000. Environment: HOTCELL_PORT, PORT." */
static void print_remark(const struct config_row *row, FILE *to)
{
	auto_buf struct buf text = { 0 };
	auto_buf struct buf want = { 0 };

	value_tell_want(row, &want);
	buf_addf(&text, "%s. Want %s. Default: %s. Environment: HOTCELL_", row->meaning, want.data,
		told_default(row));
	text.data[0] = (char)toupper((unsigned char)text.data[0]);
	for (const char *at = row->name; *at; at++)
		buf_addf(&text, "%c", toupper((unsigned char)*at));
	if (row->old_name)
		buf_addf(&text, ", %s", row->old_name);
	if (row->old_scale > 1)
		buf_addf(&text, " (times %llu)", (unsigned long long)row->old_scale);
	buf_add_str(&text, ".");
	fputc('#', to);
	print_wrapped(to, text.data, "#", 1, WIDTH);
}

void config_print(const struct config *c, FILE *to)
{
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		auto_buf struct buf value = { 0 };

		if (row->group)
			fprintf(to, "%s## %s\n", i ? "\n" : "", row->group);
		fputc('\n', to);
		print_remark(row, to);
		value_tell(c, row, &value);
		fprintf(to, "%s: %s\n", row->name, value.data);
	}
}

static const char *metavar(const struct config_row *row)
{
	static const char *const names[] = {
		[CONFIG_TEXT] = "=TEXT",
		[CONFIG_PATH] = "=PATH",
		[CONFIG_NUMBER] = "=N",
		[CONFIG_SIZE] = "=SIZE",
		[CONFIG_MS] = "=TIME",
		[CONFIG_S] = "=TIME",
		[CONFIG_YES_NO] = "",
		[CONFIG_LIST] = "=LIST",
		[CONFIG_PATHS] = "=PATHS",
		[CONFIG_CHOICE] = "=WORD",
	};

	return names[row->kind];
}

void config_print_flags(FILE *to)
{
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		auto_free char *name = xasprintf("%s%s", row->name, metavar(row));
		auto_buf struct buf text = { 0 };
		int used;

		for (char *at = name; *at && *at != '='; at++)
			if (*at == '_')
				*at = '-';
		if (row->group)
			fprintf(to, "\n %s:\n", row->group);
		used = fprintf(to, "      --%s", name);
		if (used < HELP_COLUMN - 1)
			fprintf(to, "%*s", HELP_COLUMN - 1 - used, "");
		else
			fprintf(to, "\n%*s", HELP_COLUMN - 1, "");
		buf_addf(&text, "%s. Default: %s", row->meaning, told_default(row));
		print_wrapped(
			to, text.data, "                            ", HELP_COLUMN - 1, HELP_WIDTH);
	}
}
