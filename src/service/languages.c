#include "service/languages.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "language/language.h"
#include "service/service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- their files ---- */

static char *file_of(const char *dir, const char *id)
{
	return xasprintf("%s/%s.yaml", dir, id);
}

static int write_file(const char *dir, const char *id, const char *text, struct err *e)
{
	auto_free char *path = file_of(dir, id);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)))
		return err_sys(e, "write '%s.yaml'", id);
	return 0;
}

static void remove_file(const char *dir, const char *id)
{
	auto_free char *path = file_of(dir, id);

	unlink(path);
}

static int empty(const char *dir, struct err *e)
{
	DIR *d;
	struct dirent *entry;

	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(e, "make '%s'", dir);
	d = opendir(dir);
	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	return 0;
}

int languages_open(struct service *s, struct err *e)
{
	struct store_language *rows = NULL;
	size_t count = 0;
	int failed;

	s->engines.languages_dir = path_join(s->config->state_dir, "languages");
	s->engines.trial_dir = path_join(s->config->state_dir, "languages-tried");
	failed = empty(s->engines.languages_dir, e) || empty(s->engines.trial_dir, e) ||
		 store_list_languages(s->store, &rows, &count, e);
	for (size_t i = 0; !failed && i < count; i++) {
		failed = write_file(s->engines.languages_dir, rows[i].id, rows[i].yaml, e);
		map_put(&s->engines.registered, rows[i].id, s);
	}
	store_languages_free(rows, count);
	return failed ? -1 : 0;
}

void languages_close(struct service *s)
{
	map_free(&s->engines.registered);
	free(s->engines.languages_dir);
	free(s->engines.trial_dir);
}

bool languages_is_registered(const struct service *s, const char *id)
{
	return map_get(&s->engines.registered, id) != NULL;
}

/* ---- checking ---- */

struct problem {
	struct err *e;
	bool has_lines; /* as whoever wrote it sees them */
};

static void keep_problem(void *context, const char *text)
{
	struct problem *p = context;
	const char *at = strstr(text, ".yaml:");

	if (p->e->kind != ERR_NONE)
		return;
	/* Where our files are is nobody's business. */
	if (!at)
		err_set(p->e, ERR_INPUT, "%s", text);
	else if (p->has_lines)
		err_set(p->e, ERR_INPUT, "line %s", at + 6);
	else
		err_set(p->e, ERR_INPUT, "%s", at + 6 + strspn(at + 6, "0123456789: "));
}

/* What cells show of the machine beside /usr was told to the wardens by who runs the machine. */
static int check_needs(const struct language *l, struct err *e)
{
	for (unsigned i = 0; i <= l->find_count; i++)
		if ((i ? &l->find[i - 1].needs : &l->needs)->count)
			return err_set(e, ERR_INPUT,
				"needs: a language that is registered sees /usr and nothing else; one that needs more "
				"is a file in a directory of the setting language_dirs");
	return 0;
}

static int check_names(const struct service *s, const struct language *l, struct err *e)
{
	const struct engine *n = s->engines.current;

	if (engine_language(n, l->id) && !languages_is_registered(s, l->id))
		return err_set(e, ERR_INPUT, "id: '%s' is a language already", l->id);
	for (unsigned i = 0; i < l->aliases.count; i++) {
		const struct hotcell_language *other = engine_language(n, l->aliases.at[i]);

		if (other && strcmp(other->id, l->id) != 0)
			return err_set(e, ERR_INPUT, "aliases: '%s' is %s already",
				l->aliases.at[i], other->id);
	}
	return 0;
}

/* As the engine will read it: from a file. */
static int check(struct service *s, const char *text, bool is_yaml, char **ret_id, struct err *e)
{
	const char *dir = s->engines.trial_dir;
	struct problem problem = { e, is_yaml };
	struct registry *r;
	const struct language *l;
	int failed;

	if (empty(dir, e) || write_file(dir, "new", text, e))
		return -1;
	r = registry_load(&dir, 1, keep_problem, &problem);
	l = registry_at(r, 0);
	if (!l && e->kind == ERR_NONE)
		err_set(e, ERR_INPUT, "it defines no language");
	failed = e->kind != ERR_NONE || !l || check_needs(l, e) || check_names(s, l, e);
	if (!failed)
		*ret_id = xstrdup(l->id);
	registry_free(r);
	empty(dir, &(struct err){ 0 });
	return failed ? -1 : 0;
}

/* ---- changing ---- */

#define NOTHING_ANSWERS ": no program of 'find' is there whose 'version' command succeeds in a cell"

static void finish(struct languages_change *change, const struct err *e)
{
	auto_free char *id = take_ptr(&change->id);

	change->service->engines.change = NULL;
	free(take_ptr(&change->text));
	free(take_ptr(&change->owner));
	empty(change->service->engines.trial_dir, &(struct err){ 0 });
	if (!e)
		log_info("languages.changed", { "id", .text = id });
	change->on_changed(change, id, e);
}

void languages_taken_over(struct service *s, const struct err *e)
{
	if (s->engines.change)
		finish(s->engines.change, e);
}

static void give_up(struct languages_change *change, const struct err *e)
{
	struct err why = *e;

	engines_forget_next(change->service);
	finish(change, &why);
}

static void on_stored(void *context, const struct err *e)
{
	struct languages_change *change = context;
	struct service *s = change->service;
	struct err failure = { 0 };

	if (e) {
		give_up(change, e);
		return;
	}
	map_put(&s->engines.registered, change->id, s);
	if (write_file(s->engines.languages_dir, change->id, change->text, &failure))
		log_error("languages.failed", { "id", .text = change->id },
			{ "text", .text = failure.text });
	engines_warm_next(s);
}

/* Its program has answered in a cell of its own. */
static void on_prepared(struct engine_preparation *preparation, const struct hotcell_error *failure)
{
	struct languages_change *change =
		container_of(preparation, struct languages_change, preparation);
	struct err e = { 0 };

	if (failure) {
		err_set(&e, ERR_INPUT, "%s%s", failure->text,
			failure->kind == HOTCELL_ERROR_NOT_FOUND ? NOTHING_ANSWERS : "");
		give_up(change, &e);
		return;
	}
	store_put_language(change->service->store,
		&(struct store_language){
			.id = change->id,
			.owner = change->owner,
			.yaml = change->text,
			.created_s = service_now_s(),
		},
		on_stored, change);
}

static int begin(struct service *s, struct languages_change *change, struct err *e)
{
	if (s->engines.change || s->engines.next)
		return err_set(e, ERR_LIMIT,
			"another change of languages is under way; try again in a moment");
	change->service = s;
	return 0;
}

static bool is_yaml(json_t *definition)
{
	return json_object_size(definition) == 1 &&
	       json_is_string(json_object_get(definition, "yaml"));
}

static char *text_of(json_t *definition)
{
	/* JSON is YAML. */
	return is_yaml(definition) ?
		       xstrdup(json_string_value(json_object_get(definition, "yaml"))) :
		       json_dumps(definition, JSON_INDENT(1));
}

int languages_register(struct service *s, json_t *definition, const char *owner,
	struct languages_change *change, struct err *e)
{
	auto_free char *text = text_of(definition);
	auto_free char *id = NULL;
	struct hotcell_request q = { .code = "" };
	struct hotcell_error error;

	if (begin(s, change, e) || check(s, text, is_yaml(definition), &id, e) ||
		write_file(s->engines.trial_dir, id, text, e) ||
		engines_open_next(s, s->engines.trial_dir, e))
		return -1;
	q.language = id;
	change->preparation.on_done = on_prepared;
	if (engine_prepare(s->engines.next, &q, &change->preparation, &error)) {
		engines_forget_next(s);
		return err_set(e, ERR_INPUT, "%s", error.text);
	}
	change->id = take_ptr(&id);
	change->text = take_ptr(&text);
	change->owner = xstrdup(owner);
	s->engines.change = change;
	return 0;
}

static void on_removed(void *context, const struct err *e)
{
	struct languages_change *change = context;
	struct service *s = change->service;
	struct err failure = { 0 };

	if (!e) {
		map_remove(&s->engines.registered, change->id);
		remove_file(s->engines.languages_dir, change->id);
		if (engines_open_next(s, NULL, &failure) == 0) {
			engines_warm_next(s);
			return;
		}
	}
	finish(change, e ? e : &failure);
}

int languages_unregister(
	struct service *s, const char *id, struct languages_change *change, struct err *e)
{
	if (!languages_is_registered(s, id))
		return engine_language(s->engines.current, id) ?
			       err_set(e, ERR_INPUT,
				       "'%s' was not registered: it cannot be removed", id) :
			       err_set(e, ERR_NOT_FOUND, "Language '%s' not found", id);
	if (begin(s, change, e))
		return -1;
	change->id = xstrdup(id);
	s->engines.change = change;
	store_remove_language(s->store, id, on_removed, change);
	return 0;
}
