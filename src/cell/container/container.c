#include "cell/container/container.h"

#include "cell/wall/wall.h"

static int prepare(const struct isolation_options *options, void **ret_state, struct err *e)
{
	return wall_prepare(options, NULL, ret_state, e);
}

const struct isolation isolation_container = {
	.name = "container",
	.kind = ISOLATION_CONTAINER,
	.holds = WALL_HOLDS,
	.holds_network = true,
	.prepare = prepare,
	.allow = wall_allow,
	.find_need = wall_find_need,
	.find_mount = wall_find_mount,
	.seal = wall_seal,
	.make = wall_make,
	.get_ahead = wall_get_ahead,
	.clear = wall_clear,
	.close = wall_close,
};
