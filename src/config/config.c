/* Where a setting comes from, later ones winning:
 *
 *	the table's default -> the file -> the environment: old name, HOTCELL_NAME -> --name
 *
 * Each value passes value_set(), and `source` remembers who gave it: for messages, and because of two settings that
 * contradict each other the one that nobody gave yields. */
#include "config/config.h"

#include "base/near.h"
#include "base/own.h"
#include "config/file.h"
#include "config/places.h"
#include "config/table.h"
#include "config/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct load {
	struct config *config;
	const char *file_name;
	char *source[CONFIG_ROWS]; /* NULL: the default */
};

void config_free(struct config *c)
{
	for (int i = 0; c && i < CONFIG_ROWS; i++)
		value_free(c, &config_rows[i]);
	free(c);
}

static void keep_text(char *const *old, char **text)
{
	free(*text);
	*text = xstrdup(*old);
}

static bool is_same(const struct config *old, const struct config *c, const struct config_row *row)
{
	auto_buf struct buf before = { 0 };
	auto_buf struct buf now = { 0 };

	value_tell(old, row, &before);
	value_tell(c, row, &now);
	return before.len == now.len && memcmp(before.data, now.data, now.len) == 0;
}

void config_list_later(const struct config *old, const struct config *c, struct buf *ret)
{
	/* What config_keep_places() keeps, and what a door has from its opening. */
	static const char *const later[] = { "host", "port", "socket", "no_auth", "user",
		"state_dir", "connections_max", "connection_idle_s", "request_bytes_max" };

	for (size_t i = 0; i < COUNT(later); i++) {
		if (!is_same(old, c, config_find_row(later[i])))
			buf_addf(ret, "%s%s", ret->len ? "," : "", later[i]);
	}
}

void config_keep_places(const struct config *old, struct config *c)
{
	keep_text(&old->host, &c->host);
	c->port = old->port;
	keep_text(&old->socket, &c->socket);
	c->no_auth = old->no_auth;
	keep_text(&old->user, &c->user);
	keep_text(&old->state_dir, &c->state_dir);
}

static void load_free(struct load *l)
{
	for (int i = 0; i < CONFIG_ROWS; i++)
		free(l->source[i]);
	config_free(l->config);
}

#define auto_load __attribute__((cleanup(load_free)))

/* Takes `source`. */
static int set(struct load *l, const struct config_row *row, const struct value *value,
	char *source, struct err *e)
{
	char **known = &l->source[row - config_rows];

	free(*known);
	*known = source;
	if (value_set(l->config, row, value, e))
		return err_wrap(e, "%s", source);
	return 0;
}

static int load_defaults(struct load *l, struct err *e)
{
	l->config = xalloc(sizeof(*l->config));
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		auto_free char *found = row->find_default ? row->find_default() : NULL;
		struct value value = { .text = row->find_default ? found : row->by_default };

		/* What is still missing at the end is told then. */
		if (value.text && value_set(l->config, row, &value, e))
			return err_wrap(e, "default");
	}
	return 0;
}

/* ---- the file ---- */

static int on_setting(void *context, const struct config_row *row, const struct value *value,
	unsigned line, struct err *e)
{
	struct load *l = context;

	return set(l, row, value, xasprintf("%s:%u", l->file_name, line), e);
}

static int load_text(struct load *l, const char *name, const char *text, size_t len, struct err *e)
{
	struct file file = { name, text, len, on_setting, l };

	l->file_name = name;
	return file_parse(&file, e);
}

static int load_file(struct load *l, const char *path, struct err *e)
{
	auto_buf struct buf text = { 0 };

	if (file_read(path, &text, e))
		return -1;
	return load_text(l, path, text.data ? text.data : "", text.len, e);
}

static int load_usual_file(struct load *l, struct err *e)
{
	char *paths[PLACES_CONFIG_FILES];
	unsigned count = places_config_files(paths);
	bool done = false;
	int failed = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!done) {
			failed = load_file(l, paths[i], e);
			done = !failed || (e->sys_errno != ENOENT && e->sys_errno != ENOTDIR);
		}
		free(paths[i]);
	}
	return done ? failed : 0;
}

/* ---- the environment ---- */

static void upper_name(const struct config_row *row, char *ret, size_t size)
{
	snprintf(ret, size, "HOTCELL_%s", row->name);
	for (char *at = ret; *at; at++)
		*at = (char)toupper((unsigned char)*at);
}

static int load_variable(struct load *l, const struct config_row *row, const char *name,
	const struct value *value, struct err *e)
{
	return set(l, row, value, xasprintf("environment %s", name), e);
}

static int load_environment(struct load *l, struct err *e)
{
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		const char *old = row->old_name ? getenv(row->old_name) : NULL;
		struct value value = { 0 };
		char name[64];

		upper_name(row, name, sizeof(name));
		value.text = getenv(name);
		if (value.text) {
			if (load_variable(l, row, name, &value, e))
				return -1;
		} else if (old && *old) {
			/* Empty ones of these are what many ways of starting a program leave. */
			value.text = old;
			value.scale = row->old_scale;
			if (load_variable(l, row, row->old_name, &value, e))
				return -1;
		}
	}
	return 0;
}

/* ---- flags ---- */

enum { NAME_SIZE = 64 };

/* "timeout_max_ms" -> "--timeout-max-ms" */
static const char *flag_name(const char *name, char ret[NAME_SIZE])
{
	snprintf(ret, NAME_SIZE, "--%s", name);
	for (char *at = ret; *at; at++)
		if (*at == '_')
			*at = '-';
	return ret;
}

struct flag {
	enum config_flag_found found;
	const struct config_row *row; /* NULL: --config */
	const char *value;            /* NULL: it stands in the next word, or there is none */
};

static struct flag find_flag(const char *word)
{
	size_t len = strcspn(word, "=");
	struct flag flag = { .value = word[len] ? word + len + 1 : NULL };
	char name[NAME_SIZE];

	if (strncmp(word, "--config", len) == 0 && len == strlen("--config")) {
		flag.found = CONFIG_FLAG_WITH_VALUE;
		return flag;
	}
	for (int i = 0; i < CONFIG_ROWS; i++) {
		flag_name(config_rows[i].name, name);
		if (strncmp(word, name, len) == 0 && name[len] == '\0') {
			flag.row = &config_rows[i];
			flag.found = flag.row->kind == CONFIG_YES_NO ? CONFIG_FLAG_ALONE :
								       CONFIG_FLAG_WITH_VALUE;
			return flag;
		}
	}
	flag.found = CONFIG_FLAG_NOT_OURS;
	return flag;
}

enum config_flag_found config_find_flag(const char *word)
{
	return find_flag(word).found;
}

static int unknown_word(const char *word, struct err *e)
{
	static const char *const others[] = { "config", "print_config", "help" };
	auto_free char *typed = xasprintf("%.*s", (int)strcspn(word, "="), word);
	struct near near = { .typed = typed + strspn(typed, "-") };
	char name[NAME_SIZE];

	if (word[0] != '-')
		return err_set(e, ERR_INPUT,
			"unexpected '%.60s': settings are given as --name value", word);
	for (char *at = typed; *at; at++)
		if (*at == '-')
			*at = '_';
	for (int i = 0; i < CONFIG_ROWS; i++)
		near_offer(&near, config_rows[i].name);
	for (size_t i = 0; i < COUNT(others); i++)
		near_offer(&near, others[i]);
	if (!near.best)
		return err_set(e, ERR_INPUT,
			"unknown option '%.60s'; 'hotcell serve --help' lists them", word);
	return err_set(e, ERR_INPUT, "unknown option '%.60s'; did you mean %s?", word,
		flag_name(near.best, name));
}

/* The flag at argv[*at], with its value; *at is then behind both. */
static int next_flag(int argc, char **argv, int *at, struct flag *ret, struct err *e)
{
	const char *word = argv[(*at)++];

	*ret = find_flag(word);
	if (ret->found == CONFIG_FLAG_NOT_OURS)
		return unknown_word(word, e);
	if (ret->value)
		return 0;
	if (ret->found == CONFIG_FLAG_ALONE) {
		ret->value = "yes";
		return 0;
	}
	if (*at == argc)
		return err_set(e, ERR_INPUT, "option '%s' requires an argument (%s)", word,
			ret->row ? ret->row->meaning : "configuration file");
	ret->value = argv[(*at)++];
	return 0;
}

static int find_config_flag(int argc, char **argv, const char **ret, struct err *e)
{
	const char *variable = getenv("HOTCELL_CONFIG");

	*ret = variable && *variable ? variable : NULL;
	for (int at = 0; at < argc;) {
		struct flag flag;

		if (next_flag(argc, argv, &at, &flag, e))
			return -1;
		if (!flag.row)
			*ret = flag.value;
	}
	return 0;
}

static int load_flags(struct load *l, int argc, char **argv, struct err *e)
{
	for (int at = 0; at < argc;) {
		struct value value = { 0 };
		char name[NAME_SIZE];
		struct flag flag;
		const char *known;

		if (next_flag(argc, argv, &at, &flag, e))
			return -1;
		if (!flag.row)
			continue;
		flag_name(flag.row->name, name);
		known = l->source[flag.row - config_rows];
		value.text = flag.value;
		value.append = known && strcmp(known, name) == 0;
		if (set(l, flag.row, &value, xstrdup(name), e))
			return -1;
	}
	return 0;
}

/* ---- do they fit together? ---- */

/* A default over its maximum. Who sets only one of them means that one. */
static int check_under(struct load *l, const struct config_row *row, struct err *e)
{
	const struct config_row *most = config_find_row(row->under);
	const char *given = l->source[row - config_rows];
	const char *most_given = l->source[most - config_rows];
	uint64_t *value = value_number(l->config, row);
	uint64_t *most_value = value_number(l->config, most);

	if (*value <= *most_value || (*most_value == 0 && most->least == 0))
		return 0;
	if (!given)
		*value = *most_value;
	else if (!most_given)
		*most_value = *value;
	else
		return err_set(e, ERR_INPUT, "%s: %s = %" PRIu64 " is over %s = %" PRIu64 " of %s",
			given, row->name, *value, most->name, *most_value, most_given);
	return 0;
}

static int check(struct load *l, struct err *e)
{
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		char name[NAME_SIZE];

		if (row->under && check_under(l, row, e))
			return -1;
		if (row->find_default && value_is_missing(l->config, row))
			return err_set(e, ERR_INPUT,
				"%s: nothing tells a default here; give %s (%s)", row->name,
				flag_name(row->name, name), row->meaning);
	}
	return 0;
}

/* ---- all of it ---- */

int config_load(int argc, char **argv, struct config **ret, struct err *e)
{
	auto_load struct load l = { 0 };
	const char *path;

	if (load_defaults(&l, e) || find_config_flag(argc, argv, &path, e))
		return -1;
	if (path ? load_file(&l, path, e) : load_usual_file(&l, e))
		return -1;
	if (load_environment(&l, e) || load_flags(&l, argc, argv, e) || check(&l, e))
		return -1;
	*ret = take_ptr(&l.config);
	return 0;
}

int config_parse(const char *name, const char *text, size_t len, struct config **ret, struct err *e)
{
	auto_load struct load l = { 0 };

	if (load_defaults(&l, e) || load_text(&l, name, text, len, e) || check(&l, e))
		return -1;
	*ret = take_ptr(&l.config);
	return 0;
}
