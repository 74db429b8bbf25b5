#include "service/service.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "service/job.h"
#include "service/languages.h"

#include <string.h>
#include <strings.h>

/* ---- what it does for us ---- */

static void finish(struct engine_op *op)
{
	struct hotcell_result *result = NULL;
	struct hotcell_error failure = { 0 };
	struct engine *n = op->engine;
	int failed = hotcell_finish(take_ptr(&op->work), &result, &failure);

	list_remove(&op->link);
	op->engine = NULL;
	op->on_done(op, result, failed ? &failure : NULL);
	engine_release(n);
}

/* Whatever is done by now. Handlers may start and end others: from the beginning each time, since there are only
 * as many as may run. */
static void settle(struct engine *n)
{
	bool found = true;

	while (found) {
		found = false;
		list_each(at, next, &n->ops)
		{
			struct engine_op *op = container_of(at, struct engine_op, link);

			if (hotcell_done(op->work)) {
				finish(op);
				found = true;
				break;
			}
		}
	}
}

/* Whatever is ready by now. */
static void settle_preparations(struct engine *n)
{
	bool found = true;

	while (found && !n->is_closing) {
		found = false;
		list_each(at, next, &n->preparations)
		{
			struct engine_preparation *p =
				container_of(at, struct engine_preparation, link);
			struct hotcell_error e;
			int failed;

			if (!hotcell_prepare_done(p->preparation))
				continue;
			list_remove(&p->link);
			p->engine = NULL;
			failed = hotcell_prepare_finish(take_ptr(&p->preparation), &e);
			p->on_done(p, failed ? &e : NULL);
			found = true;
			break;
		}
	}
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct engine *n = poll->data;
	struct hotcell_error e;

	(void)status;
	(void)events;
	engine_hold(n);
	if (hotcell_dispatch(n->hotcell, 0, &e))
		log_error("engine.failed", { "text", .text = e.text });
	settle(n);
	settle_preparations(n);
	engine_release(n);
}

static void on_soon(uv_idle_t *idle)
{
	struct engine *n = idle->data;

	uv_idle_stop(idle);
	engine_hold(n);
	settle(n);
	settle_preparations(n);
	engine_release(n);
}

static void begin(struct engine *n, struct engine_op *op)
{
	op->engine = n;
	engine_hold(n);
	list_add_last(&n->ops, &op->link);
	if (hotcell_done(op->work))
		uv_idle_start(&n->soon, on_soon);
}

int engine_run(struct engine *n, const struct hotcell_request *q, struct engine_op *op,
	struct hotcell_error *e)
{
	if (hotcell_start(n->hotcell, q, &op->work, e))
		return -1;
	begin(n, op);
	return 0;
}

int engine_files(struct engine *n, struct hotcell_cell *cell, const struct hotcell_files *what,
	struct engine_op *op, struct hotcell_error *e)
{
	if (hotcell_files_start(cell, what, &op->work, e))
		return -1;
	begin(n, op);
	return 0;
}

int engine_prepare(struct engine *n, const struct hotcell_request *q, struct engine_preparation *p,
	struct hotcell_error *e)
{
	if (hotcell_prepare(n->hotcell, q, &p->preparation, e))
		return -1;
	p->engine = n;
	list_add_last(&n->preparations, &p->link);
	if (hotcell_prepare_done(p->preparation))
		uv_idle_start(&n->soon, on_soon);
	return 0;
}

void engine_cancel(struct engine_op *op)
{
	if (!op->work)
		return;
	hotcell_cancel(op->work);
	if (hotcell_done(op->work))
		uv_idle_start(&op->engine->soon, on_soon);
}

void engine_abandon(struct engine_op *op)
{
	struct hotcell_result *result = NULL;
	struct hotcell_error ignored;
	struct engine *n = op->engine;

	if (!op->work)
		return;
	hotcell_cancel(op->work);
	list_remove(&op->link);
	op->engine = NULL;
	if (hotcell_finish(take_ptr(&op->work), &result, &ignored) == 0)
		hotcell_result_free(result);
	engine_release(n);
}

struct hotcell_language *engine_language(const struct engine *n, const char *name)
{
	for (size_t i = 0; i < n->languages_count; i++) {
		struct hotcell_language *l = &n->languages[i];

		if (strcasecmp(l->id, name) == 0)
			return l;
		for (const char *const *alias = l->aliases; *alias; alias++)
			if (strcasecmp(*alias, name) == 0)
				return l;
	}
	return NULL;
}

/* ---- getting warm ---- */

/* "python", "python:data", "python@container", "python:data@container": the table of settings has seen to it. */
struct warm_words {
	char language[CONFIG_WARM_NAME_MAX + 1];
	char profile[CONFIG_WARM_NAME_MAX + 1];
	enum hotcell_isolation isolation;
};

static void parse_warm(const char *text, struct warm_words *ret)
{
	const char *at = strchr(text, '@');
	size_t len = at ? (size_t)(at - text) : strlen(text);
	const char *colon = memchr(text, ':', len);
	size_t id = colon ? (size_t)(colon - text) : len;

	*ret = (struct warm_words){ .isolation = HOTCELL_ISOLATION_AUTO };
	snprintf(ret->language, sizeof(ret->language), "%.*s", (int)id, text);
	if (colon)
		snprintf(
			ret->profile, sizeof(ret->profile), "%.*s", (int)(len - id - 1), colon + 1);
	if (at && strcmp(at + 1, "container") == 0)
		ret->isolation = HOTCELL_ISOLATION_CONTAINER;
	if (at && strcmp(at + 1, "vm") == 0)
		ret->isolation = HOTCELL_ISOLATION_VM;
}

static void warm_request(const struct warm_words *w, struct hotcell_request *ret)
{
	*ret = (struct hotcell_request){
		.language = w->language,
		.code = "",
		.profile = *w->profile ? w->profile : NULL,
		.isolation = w->isolation,
	};
}

/* What the config lists is ready: cells of it are kept from now on. */
static void list_warm(struct engine *n, const struct warm_words *w)
{
	struct hotcell_request q;
	struct hotcell_plan plan;
	struct hotcell_error e;

	warm_request(w, &q);
	if (hotcell_plan(n->hotcell, &q, &plan, &e)) {
		log_warning("warm.failed", { "language", .text = w->language },
			{ "text", .text = e.text });
		return;
	}
	pool_list(&n->service->pools, n,
		&(struct pool_wish){
			.language = plan.language,
			.isolation = plan.isolation,
			.profile = plan.profile,
			.once = n->service->config->reuse == CONFIG_REUSE_NEVER,
		});
}

static void take_over(struct engine *n);
static void warm_next(struct engine *n);
static void ask_next_version(struct engine *n);

static void tell_cold(const struct warm_words *words, const struct hotcell_error *e)
{
	log_warning("warm.failed", { "language", .text = words->language },
		{ "profile", .text = words->profile }, { "text", .text = e->text });
}

static void on_warmed(struct engine_preparation *p, const struct hotcell_error *failure)
{
	struct engine *n = container_of(p, struct engine, warming);
	struct warm_words words;

	parse_warm(n->service->config->warm.at[n->warmed++], &words);
	if (failure)
		tell_cold(&words, failure);
	else
		list_warm(n, &words);
	warm_next(n);
}

/* One after another: each takes a processor. */
static void warm_next(struct engine *n)
{
	const struct config_list *warm = &n->service->config->warm;
	struct warm_words words;
	struct hotcell_error e;
	struct hotcell_request q;

	while (n->warmed < warm->count) {
		parse_warm(warm->at[n->warmed], &words);
		warm_request(&words, &q);
		n->warming.on_done = on_warmed;
		if (engine_prepare(n, &q, &n->warming, &e) == 0)
			return;
		tell_cold(&words, &e);
		n->warmed++;
	}
	n->is_warm = true;
	log_info("engine.warm", { "kinds", .number = (int64_t)warm->count });
	take_over(n);
	ask_next_version(n);
}

/* ---- what nobody listed, but somebody uses ---- */

struct wanted {
	struct engine_preparation preparation;
	char *language;
	char *profile;
};

static void on_wanted(struct engine_preparation *p, const struct hotcell_error *failure)
{
	struct wanted *w = container_of(p, struct wanted, preparation);

	if (failure)
		log_warning("warm.failed", { "language", .text = w->language },
			{ "profile", .text = w->profile }, { "text", .text = failure->text });
}

/* Remembered, whatever comes of it: it is not tried again. */
void engine_want(struct engine *n, const char *language, const char *profile)
{
	auto_free char *key = xasprintf("%s:%s", language, profile);
	struct wanted *w;
	struct hotcell_error ignored;

	if (map_get(&n->wanted, key))
		return;
	w = xalloc(sizeof(*w));
	w->language = xstrdup(language);
	w->profile = xstrdup(profile);
	w->preparation.on_done = on_wanted;
	list_init(&w->preparation.link);
	map_put(&n->wanted, key, w);
	engine_prepare(n,
		&(struct hotcell_request){
			.language = w->language, .code = "", .profile = w->profile },
		&w->preparation, &ignored);
}

static void forget_wanted(struct engine *n)
{
	struct wanted *w;
	size_t at = 0;

	while ((w = map_next(&n->wanted, &at))) {
		free(w->language);
		free(w->profile);
		free(w);
	}
	map_free(&n->wanted);
}

/* ---- which versions there are ---- */

static void read_languages(struct engine *n)
{
	struct hotcell_language *languages;
	struct hotcell_error ignored;
	size_t count;

	if (hotcell_languages(n->hotcell, &languages, &count, &ignored))
		return;
	hotcell_languages_free(n->languages, n->languages_count);
	n->languages = languages;
	n->languages_count = count;
}

static void on_version(struct engine_preparation *p, const struct hotcell_error *failure)
{
	struct engine *n = container_of(p, struct engine, warming);

	(void)failure; /* then it is not installed, and the list says so */
	n->asked++;
	ask_next_version(n);
}

/* Behind all else, when nobody waits: each is asked in a cell. */
static void ask_next_version(struct engine *n)
{
	struct hotcell_error ignored;

	while (n->asked < n->languages_count) {
		struct hotcell_request q = {
			.language = n->languages[n->asked].id, .code = "", .cold = 1
		};

		n->warming.on_done = on_version;
		if (n->languages[n->asked].installed &&
			engine_prepare(n, &q, &n->warming, &ignored) == 0)
			return;
		n->asked++;
	}
	read_languages(n);
}

/* ---- one after another ---- */

static void on_closed(uv_handle_t *handle)
{
	struct engine *n = handle->data;

	if (!uv_is_closing((uv_handle_t *)&n->poll) || !uv_is_closing((uv_handle_t *)&n->soon))
		return;
	/* The second of the two. */
	if (n->references++ == 0)
		return;
	free(n);
}

static void engine_close(struct engine *n)
{
	struct hotcell_error ignored;

	if (n->is_closing)
		return;
	n->is_closing = true;
	list_remove(&n->link);
	list_each(at, next, &n->preparations)
	{
		struct engine_preparation *p = container_of(at, struct engine_preparation, link);

		list_remove(&p->link);
		hotcell_prepare_finish(take_ptr(&p->preparation), &ignored);
	}
	forget_wanted(n);
	hotcell_languages_free(n->languages, n->languages_count);
	uv_poll_stop(&n->poll);
	hotcell_close(n->hotcell);
	n->references = 0;
	uv_close((uv_handle_t *)&n->poll, on_closed);
	uv_close((uv_handle_t *)&n->soon, on_closed);
}

void engine_hold(struct engine *n)
{
	n->references++;
}

static bool is_in_use(const struct engine *n)
{
	return n == n->service->engines.current || n == n->service->engines.next;
}

void engine_release(struct engine *n)
{
	if (--n->references == 0 && !is_in_use(n) && !n->is_closing)
		engine_close(n);
}

static void take_over(struct engine *n)
{
	struct engines *all = &n->service->engines;
	struct engine *old = all->current;

	if (all->next != n)
		return;
	all->next = NULL;
	all->current = n;
	read_languages(n); /* one that is new was tried, and has told its version */
	list_add_last(&all->old, &old->link);
	engine_hold(old);
	pools_drop(&n->service->pools, old);
	engine_release(old);
	languages_taken_over(n->service, NULL);
}

static void on_problem(void *context, const char *text)
{
	(void)context;
	log_warning("language.unusable", { "text", .text = text });
}

static int open_one(
	struct service *s, const char *more_languages, struct engine **ret, struct err *e)
{
	struct engine *n = xalloc(sizeof(*n));
	size_t count = s->config->language_dirs.count;
	auto_free const char **dirs = xalloc((count + 3) * sizeof(*dirs));
	struct hotcell_options o = {
		.share_dir = s->share_dir,
		.language_dirs = dirs,
		.cache_dir = "",
		.allow_host_network = s->config->allow_host_network,
		.mount_dirs = (const char *const *)s->config->mounts.at,
		.never_waits = 1,
		.start_warden = s->start_warden,
		.has_kvm = s->has_kvm,
		.wardens_are_sealed = 1,
		.on_problem = on_problem,
		.context = s->context,
	};
	struct hotcell_error error;

	memcpy(dirs, s->config->language_dirs.at, count * sizeof(*dirs));
	dirs[count++] = s->engines.languages_dir;
	dirs[count] = more_languages;
	if (hotcell_open(&o, &n->hotcell, &error) ||
		hotcell_languages(n->hotcell, &n->languages, &n->languages_count, &error)) {
		hotcell_close(n->hotcell);
		free(n);
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	}
	n->service = s;
	list_init(&n->link);
	list_init(&n->ops);
	list_init(&n->preparations);
	uv_poll_init(s->loop, &n->poll, hotcell_fd(n->hotcell));
	uv_idle_init(s->loop, &n->soon);
	n->poll.data = n->soon.data = n;
	uv_poll_start(&n->poll, UV_READABLE, on_ready);
	*ret = n;
	return 0;
}

int engines_open(struct service *s, struct err *e)
{
	list_init(&s->engines.old);
	if (languages_open(s, e) || open_one(s, NULL, &s->engines.current, e))
		return -1;
	warm_next(s->engines.current);
	return 0;
}

int engines_open_next(struct service *s, const char *more_languages, struct err *e)
{
	engines_forget_next(s);
	return open_one(s, more_languages, &s->engines.next, e);
}

void engines_warm_next(struct service *s)
{
	if (s->engines.next)
		warm_next(s->engines.next);
}

void engines_forget_next(struct service *s)
{
	struct engine *late = take_ptr(&s->engines.next);

	if (!late)
		return;
	engine_hold(late);
	pools_drop(&s->pools, late);
	engine_release(late);
}

int engines_reload(struct service *s, struct err *e)
{
	if (s->engines.change)
		return err_set(e, ERR_LIMIT, "a change of languages is under way");
	if (engines_open_next(s, NULL, e))
		return -1;
	engines_warm_next(s);
	return 0;
}

void engines_mend(struct service *s)
{
	struct hotcell_error e;

	if (!hotcell_is_well(s->engines.current->hotcell) &&
		hotcell_mend(s->engines.current->hotcell, &e))
		log_error("warden.failed", { "text", .text = e.text });
}

void engines_close(struct service *s)
{
	struct engines *all = &s->engines;

	list_each(at, next, &all->old) engine_close(container_of(at, struct engine, link));
	if (all->next)
		engine_close(take_ptr(&all->next));
	if (all->current)
		engine_close(take_ptr(&all->current));
	languages_close(s);
}
