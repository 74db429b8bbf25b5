/* What would be done with a request. */
#include "engine/request.h"
#include "engine/snapshot.h"

#include "base/own.h"

static enum hotcell_isolation isolation_out(enum isolation_kind kind)
{
	switch (kind) {
	case ISOLATION_PROCESS:
		return HOTCELL_ISOLATION_PROCESS;
	case ISOLATION_CONTAINER:
		return HOTCELL_ISOLATION_CONTAINER;
	case ISOLATION_VM:
		break;
	}
	return HOTCELL_ISOLATION_VM;
}

static int make_plan(
	struct hotcell *h, const struct hotcell_request *q, struct hotcell_plan *ret, struct err *e)
{
	const struct language *language = request_language(h, q, e);
	const struct profile *profile = NULL;
	struct tool tool = { 0 };
	enum isolation_kind kind;
	char why[160];

	if (!language || request_isolation(h, q, language, &kind, why, sizeof(why), e) ||
		tool_find(h, language, false, kind, &tool, e))
		return -1;
	if (start_choose_profile(q, language, kind, &profile, e)) {
		tool_free(&tool);
		return -1;
	}
	*ret = (struct hotcell_plan){
		.language = language->id,
		.isolation = isolation_out(kind),
		.compiles = tool_compiles(&tool),
	};
	if (profile && snapshot_is_possible(h, &tool)) {
		ret->profile = profile->name;
		ret->is_ready = kind != ISOLATION_VM || snapshot_find(h, &tool, profile) >= 0;
	}
	tool_free(&tool);
	return 0;
}

int hotcell_plan(struct hotcell *h, const struct hotcell_request *request, struct hotcell_plan *ret,
	struct hotcell_error *error)
{
	struct err e = { 0 };

	if (make_plan(h, request, ret, &e) == 0)
		return 0;
	error_out(error, &e);
	return -1;
}
