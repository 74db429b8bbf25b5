/* What takes time before the first run of a language: asking its programs which of them works, and making
 * the snapshot that warm machines start from. Both are runs in cells of their own, one after the other.
 *
 *	FINDING --it must be asked--> PROBING --it works not--> FINDING, with the next candidate
 *	   │                             │
 *	   └────────── found ────────────┴──────▶ FOUND --no snapshot yet--> WARMING ──┐
 *	                                            └── nothing else to do ────────────┴─▶ DONE
 *
 * All failures lead to DONE. Only step() changes the step; it is called when a preparation begins, and after
 * everything that the engine has handled. In FOUND one waits for another that makes the same snapshot. */
#include "engine/request.h"
#include "engine/snapshot.h"

#include "base/own.h"

#include <string.h>

enum step { FINDING, PROBING, FOUND, WARMING, DONE };

struct hotcell_preparation {
	struct hotcell_preparation *next;
	struct hotcell *engine; /* NULL: it is no more */
	const struct language *language;
	enum isolation_kind kind;
	bool want_version;
	const struct profile *profile; /* NULL: no snapshot is wanted */
	enum step step;
	struct tool tool;          /* that is asked, or was found */
	struct hotcell_work *work; /* that probes or warms */
	uint64_t key;
	int fd; /* of the snapshot that is being made; -1 */
	struct err failure;
};

static struct hotcell_preparation *new (
	struct hotcell *h, const struct language *language, enum isolation_kind kind)
{
	struct hotcell_preparation *p = xalloc(sizeof(*p));

	p->engine = h;
	p->language = language;
	p->kind = kind;
	p->fd = -1;
	p->next = h->preparations;
	h->preparations = p;
	return p;
}

static void leave(struct hotcell_preparation *p)
{
	struct hotcell_preparation **at = &p->engine->preparations;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->engine = NULL;
}

/* The work's result, if it is done; it is freed then. */
static struct hotcell_result *take_result(struct hotcell_preparation *p)
{
	struct hotcell_result *result = NULL;
	struct hotcell_error error;

	if (hotcell_finish(take_ptr(&p->work), &result, &error))
		err_set(&p->failure, (enum err_kind)error.kind, "%s", error.text);
	return result;
}

/* ---- which program ---- */

static enum step find(struct hotcell_preparation *p, unsigned from)
{
	struct hotcell *h = p->engine;
	/* What is there, a container shows as well as a vm. */
	struct raw raw = {
		.kind = p->kind == ISOLATION_VM ? ISOLATION_CONTAINER : p->kind,
		.snapshot_fd = -1,
	};
	int found = tool_look(h, p->language, p->want_version, from, &p->tool, &p->failure);

	if (found != TOOL_UNKNOWN)
		return found ? DONE : FOUND;
	raw.argv = tool_version_command(&p->tool);
	return start_raw(h, &p->tool, &raw, &p->work, &p->failure) ? DONE : PROBING;
}

static enum step end_probe(struct hotcell_preparation *p)
{
	struct hotcell_result *result = take_result(p);
	unsigned at = (unsigned)(p->tool.candidate - p->language->find);
	int works = result ? tool_learn(p->engine, &p->tool, result, &p->failure) : -1;

	hotcell_result_free(result);
	tool_forget(p->engine, p->language);
	if (works)
		return works < 0 ? DONE : FOUND;
	tool_free(&p->tool);
	return find(p, at + 1);
}

/* ---- its snapshot ---- */

static bool is_made_by_another(const struct hotcell_preparation *p)
{
	for (const struct hotcell_preparation *o = p->engine->preparations; o; o = o->next)
		if (o != p && o->step == WARMING && o->profile == p->profile)
			return true;
	return false;
}

static enum step warm(struct hotcell_preparation *p)
{
	struct hotcell *h = p->engine;
	struct raw raw = { .kind = ISOLATION_VM };

	if (!p->profile || !snapshot_is_possible(h, &p->tool) ||
		snapshot_find(h, &p->tool, p->profile) >= 0)
		return DONE;
	if (is_made_by_another(p))
		return FOUND;
	p->key = snapshot_key(h, &p->tool, p->profile);
	if (snapshot_load(h, &p->tool, p->profile, p->key) >= 0)
		return DONE;
	p->fd = raw.snapshot_fd = snapshot_new(&p->failure);
	if (p->fd < 0)
		return DONE;
	raw.argv = driver_command(&p->tool, p->profile);
	return start_raw(h, &p->tool, &raw, &p->work, &p->failure) ? DONE : WARMING;
}

/* Samples may have printed before: the reason is what comes last. */
static const char *end_of(const char *text)
{
	enum { SHOWN = 300 };
	size_t len = strlen(text);

	return len > SHOWN ? text + len - SHOWN : text;
}

static enum step end_warming(struct hotcell_preparation *p)
{
	struct hotcell_result *result = take_result(p);

	if (result && (result->reason != HOTCELL_EXITED || result->exit_code != 0))
		err_set(&p->failure, ERR_SYSTEM, "%s could not be warmed (%s): %s",
			p->language->name, hotcell_reason_name(result->reason),
			end_of(result->err.data));
	else if (result)
		snapshot_add(p->engine, &p->tool, p->profile, p->key, &p->fd, &p->failure);
	hotcell_result_free(result);
	return DONE;
}

/* ---- both ---- */

static enum step next_step(struct hotcell_preparation *p)
{
	if (p->work && !hotcell_done(p->work))
		return p->step;
	switch (p->step) {
	case FINDING:
		return find(p, 0);
	case PROBING:
		return end_probe(p);
	case FOUND:
		return warm(p);
	case WARMING:
		return end_warming(p);
	case DONE:
		break;
	}
	return DONE;
}

static void step(struct hotcell_preparation *p)
{
	enum step before;

	do {
		before = p->step;
		p->step = next_step(p);
	} while (p->step != before);
}

void prepare_step_all(struct hotcell *h)
{
	for (struct hotcell_preparation *p = h->preparations; p; p = p->next)
		step(p);
}

static void give_up(struct hotcell_preparation *p)
{
	work_free(take_ptr(&p->work));
	if (p->step != DONE && p->failure.kind == ERR_NONE)
		err_set(&p->failure, ERR_GONE, "it was given up");
	p->step = DONE;
}

void prepare_end_all(struct hotcell *h)
{
	while (h->preparations) {
		struct hotcell_preparation *p = h->preparations;

		give_up(p);
		leave(p);
	}
}

static int finish(struct hotcell_preparation *p, struct tool *ret_tool, struct err *e)
{
	struct hotcell *h = p->engine;
	int failed;

	give_up(p);
	if (h) {
		leave(p);
		/* Another one may have waited for what this one made. */
		prepare_step_all(h);
	}
	failed = p->failure.kind != ERR_NONE;
	if (failed)
		*e = p->failure;
	else if (ret_tool)
		tool_copy(&p->tool, ret_tool);
	tool_free(&p->tool);
	own_close(&p->fd);
	free(p);
	return failed ? -1 : 0;
}

/* ---- for who waits ---- */

static int wait_for(struct hotcell_preparation *p, struct tool *ret_tool, struct err *e)
{
	struct hotcell_error error;

	step(p);
	while (p->step != DONE)
		if (hotcell_dispatch(p->engine, -1, &error)) {
			err_set(&p->failure, (enum err_kind)error.kind, "%s", error.text);
			break;
		}
	return finish(p, ret_tool, e);
}

int prepare_tool(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e)
{
	struct hotcell_preparation *p = new (h, language, kind);

	p->want_version = want_version;
	return wait_for(p, ret, e);
}

int prepare_snapshot(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, struct err *e)
{
	struct hotcell_preparation *p = new (h, tool->language, ISOLATION_VM);

	tool_copy(tool, &p->tool);
	p->profile = profile;
	p->step = FOUND;
	return wait_for(p, NULL, e);
}

/* ---- for who does not ---- */

int hotcell_prepare(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_preparation **ret, struct hotcell_error *error)
{
	struct err e = { 0 };
	const struct language *language = request_language(h, request, &e);
	const struct profile *profile;
	enum isolation_kind kind;
	char why[160];

	if (!language || request_isolation(h, request, language, &kind, why, sizeof(why), &e) ||
		start_choose_profile(request, language, kind, &profile, &e)) {
		error_out(error, &e);
		return -1;
	}
	/* A container's driver starts from nothing. */
	if (kind != ISOLATION_VM)
		profile = NULL;
	*ret = new (h, language, kind);
	(*ret)->want_version = true;
	(*ret)->profile = profile;
	step(*ret);
	return 0;
}

int hotcell_prepare_done(const struct hotcell_preparation *p)
{
	return p->step == DONE;
}

int hotcell_prepare_finish(struct hotcell_preparation *p, struct hotcell_error *error)
{
	struct err e = { 0 };

	if (finish(p, NULL, &e) == 0)
		return 0;
	error_out(error, &e);
	return -1;
}
