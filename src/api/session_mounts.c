#include "api/session_mounts.h"

#include "api/run_request.h"
#include "base/buf.h"
#include "base/path.h"
#include "wire/mounts.h"

#include <string.h>

/* Many more than there can be: what is too much is told by mounts_check(), in its words. */
enum { LIST_MAX = 64 };

/* Others say where it is to be seen: that is /mnt/NAME here, and must not be taken for something else. */
static const char *read_name(struct body *b, json_t *o)
{
	const char *name = body_text(b, o, "name");
	const char *target = body_text(b, o, "target");

	if (!target)
		return name;
	if (strncmp(target, "/mnt/", 5) == 0 && (!name || strcmp(name, target + 5) == 0))
		return target + 5;
	body_complain(b, "target", "value_error", json_object_get(o, "target"),
		"Value error, a mount is seen as /mnt/NAME");
	return NULL;
}

static int read_one(struct body *b, json_t *o, struct session_config *c, struct refusal *refusal)
{
	const char *source = body_text(b, o, "source");
	const char *name = read_name(b, o);

	if (!source && !b->errors)
		body_complain(b, "source", "missing", o, "Field required");
	if (!body_bool(b, o, "read_only", true) && !b->errors)
		return refuse(refusal, 400, "mounts",
			"mounts are read-only: to write there, a cell's user would have to own files of this "
			"machine. Leave read_only away, or put files into the session.");
	if (b->errors)
		return 0;
	c->mounts[c->mounts_count++] = (struct hotcell_mount){
		.source = xstrdup(source),
		.name = xstrdup(name ? name : path_base(source)),
	};
	return 0;
}

static int read_list(
	struct body *b, json_t *list, struct session_config *c, struct refusal *refusal)
{
	size_t i;
	json_t *item;
	int failed = 0;

	body_enter(b, "mounts");
	json_array_foreach(list, i, item)
	{
		if (body_enter_object(b, i, item))
			failed = read_one(b, item, c, refusal);
		body_leave(b);
		if (failed)
			break;
	}
	body_leave(b);
	return failed;
}

/* Whether such cells can have any. */
static int check_kind(const struct session_config *c, struct refusal *refusal)
{
	if (c->strategy == SESSION_POOL)
		return refuse(refusal, 422, "invalid",
			"mounts are not supported with strategy \"pool\": its cells are made before anybody asks; "
			"use per_session or per_execution.");
	if (c->isolation == HOTCELL_ISOLATION_PROCESS)
		return refuse(refusal, 422, "invalid",
			"isolation \"process\" has no mounts: its programs see the machine's files.");
	return 0;
}

static int check_allowed(
	const struct call *call, const struct session_config *c, struct refusal *refusal)
{
	const char *const *dirs = (const char *const *)call->service->config->mounts.at;

	for (size_t i = 0; i < c->mounts_count; i++)
		if (mount_find_dir(dirs, c->mounts[i].source) < 0)
			return refuse(refusal, 403, "forbidden",
				"'%s' is not below a directory from which this service allows mounts (setting "
				"mounts).",
				c->mounts[i].source);
	return 0;
}

int session_mounts_read(struct body *b, struct session_config *c, struct refusal *refusal)
{
	json_t *list = body_list(b, b->root, "mounts", LIST_MAX);
	struct mount_wish wishes[LIST_MAX];
	struct err e;

	if (!list || !json_array_size(list))
		return 0;
	c->mounts = xalloc(json_array_size(list) * sizeof(*c->mounts));
	if (read_list(b, list, c, refusal))
		return -1;
	if (b->errors)
		return 0;
	for (size_t i = 0; i < c->mounts_count; i++)
		wishes[i] = (struct mount_wish){ .source = c->mounts[i].source,
			.name = c->mounts[i].name };
	if (mounts_check(wishes, c->mounts_count, &e))
		return refuse(refusal, 422, "invalid", "%s", e.text);
	return check_kind(c, refusal) || check_allowed(b->call, c, refusal) ? -1 : 0;
}
