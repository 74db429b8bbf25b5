#include "service/service.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "service/job.h"

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

static void step_preparation(struct engine *n);

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
	step_preparation(n);
	engine_release(n);
}

static void on_soon(uv_idle_t *idle)
{
	struct engine *n = idle->data;

	uv_idle_stop(idle);
	engine_hold(n);
	settle(n);
	step_preparation(n);
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

int engine_run(
	struct engine *n, const struct hotcell_request *q, struct engine_op *op, struct hotcell_error *e)
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

/* "python", "python:data", "python@container", "python:data@container". */
struct warm_words {
	char language[64];
	char profile[64];
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
		snprintf(ret->profile, sizeof(ret->profile), "%.*s", (int)(len - id - 1), colon + 1);
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
		log_warning("warm.failed", { "language", .text = w->language }, { "text", .text = e.text });
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

/* One after another: each takes a processor. */
static void step_preparation(struct engine *n)
{
	const struct config_list *warm = &n->service->config->warm;
	struct warm_words words;
	struct hotcell_error e;
	struct hotcell_request q;

	if (n->is_warm || n->is_closing)
		return;
	if (n->preparing) {
		if (!hotcell_prepare_done(n->preparing))
			return;
		parse_warm(warm->at[n->prepared], &words);
		if (hotcell_prepare_finish(take_ptr(&n->preparing), &e))
			log_warning("warm.failed", { "language", .text = words.language },
				{ "profile", .text = words.profile }, { "text", .text = e.text });
		else
			list_warm(n, &words);
		n->prepared++;
	}
	while (n->prepared < warm->count && !n->preparing) {
		parse_warm(warm->at[n->prepared], &words);
		warm_request(&words, &q);
		if (hotcell_prepare(n->hotcell, &q, &n->preparing, &e)) {
			log_warning("warm.failed", { "language", .text = words.language },
				{ "text", .text = e.text });
			n->prepared++;
		} else if (hotcell_prepare_done(n->preparing)) {
			uv_idle_start(&n->soon, on_soon);
		}
	}
	if (n->prepared == warm->count && !n->preparing) {
		n->is_warm = true;
		log_info("engine.warm", { "kinds", .number = (int64_t)warm->count });
		take_over(n);
	}
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
	if (n->preparing)
		hotcell_prepare_finish(take_ptr(&n->preparing), &ignored);
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
	if (!old)
		return;
	list_add_last(&all->old, &old->link);
	engine_hold(old);
	pools_drop(&n->service->pools, old);
	engine_release(old);
}

static void on_problem(void *context, const char *text)
{
	(void)context;
	log_warning("language.unusable", { "text", .text = text });
}

static int open_one(struct service *s, struct engine **ret, struct err *e)
{
	struct engine *n = xalloc(sizeof(*n));
	auto_free const char **dirs = xalloc((s->config->language_dirs.count + 2) * sizeof(*dirs));
	struct hotcell_options o = {
		.language_dirs = dirs,
		.share_dir = s->share_dir,
		.cache_dir = "",
		.allow_host_network = s->config->allow_host_network,
		.never_waits = 1,
		.start_warden = s->start_warden,
		.has_kvm = s->has_kvm,
		.on_problem = on_problem,
		.context = s->context,
	};
	struct hotcell_error error;
	size_t count = s->config->language_dirs.count;

	memcpy(dirs, s->config->language_dirs.at, count * sizeof(*dirs));
	dirs[count] = s->engines.languages_dir;
	if (hotcell_open(&o, &n->hotcell, &error) ||
		hotcell_languages(n->hotcell, &n->languages, &n->languages_count, &error)) {
		hotcell_close(n->hotcell);
		free(n);
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	}
	n->service = s;
	list_init(&n->link);
	list_init(&n->ops);
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
	if (open_one(s, &s->engines.current, e))
		return -1;
	step_preparation(s->engines.current);
	return 0;
}

int engines_reload(struct service *s, struct err *e)
{
	struct engine *late = s->engines.next;

	if (late) {
		s->engines.next = NULL;
		engine_hold(late);
		pools_drop(&s->pools, late);
		engine_release(late);
	}
	if (open_one(s, &s->engines.next, e))
		return -1;
	step_preparation(s->engines.next);
	return 0;
}

void engines_close(struct service *s)
{
	struct engines *all = &s->engines;

	list_each(at, next, &all->old)
		engine_close(container_of(at, struct engine, link));
	if (all->next)
		engine_close(take_ptr(&all->next));
	if (all->current)
		engine_close(take_ptr(&all->current));
	free(all->languages_dir);
}
