/* Frames of a cell's control socket: what the engine reads of a keeper and the keeper of an engine.
 * What is taken must be written again as the very same bytes, and no path in it leads out. */
#include "fuzz.h"

#include "wire/cell_wire.h"

#include <string.h>

static struct frame_out out;
static struct msg_exec exec;

static void check_path(const char *path)
{
	CLAIM(path[0] != '\0' && path[0] != '/');
	CLAIM(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0);
	CLAIM(!strstr(path, "/../") && !strstr(path, "//"));
	CLAIM(strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
}

static bool take_put(struct frame_in *in)
{
	struct msg_put m;

	if (!get_put(in, &m))
		return false;
	check_path(m.path);
	put_put(&out, &m);
	return true;
}

static bool take_exec(struct frame_in *in)
{
	if (!get_exec(in, &exec))
		return false;
	CLAIM(exec.argv_count >= 1 && !exec_argv(&exec)[exec.argv_count]);
	CLAIM(!exec_env(&exec)[exec.env_count]);
	put_exec(&out, &exec);
	return true;
}

static bool take_file(struct frame_in *in)
{
	struct msg_file m;

	if (!get_file(in, &m))
		return false;
	check_path(m.path);
	put_file(&out, &m);
	return true;
}

static bool take_get(struct frame_in *in)
{
	struct msg_get m;

	if (!get_get(in, &m))
		return false;
	check_path(m.path);
	put_get(&out, &m);
	return true;
}

static bool take_remove(struct frame_in *in)
{
	struct msg_remove m;

	if (!get_remove(in, &m))
		return false;
	check_path(m.path);
	put_remove(&out, &m);
	return true;
}

static bool get_and_put(uint8_t type, struct frame_in *in)
{
	union {
		struct msg_data data;
		struct msg_output output;
		struct msg_exited exited;
		struct msg_listed listed;
		struct msg_got got;
		struct msg_served served;
	} m;

	switch (type) {
	case CELL_PUT:
		return take_put(in);
	case CELL_EXEC:
		return take_exec(in);
	case CELL_STDIN:
	case CELL_DATA:
	case CELL_REQUEST:
		return get_data(in, &m.data) &&
		       (put_data(&out, (enum cell_frame)type, &m.data), true);
	case CELL_STDIN_END:
	case CELL_LIST:
	case CELL_PUT_END:
	case CELL_CLEAR:
	case CELL_LINE:
	case CELL_GOES_OUT:
	case CELL_WAITS:
	case CELL_DROP:
		return get_bare(in) && (put_bare(&out, (enum cell_frame)type), true);
	case CELL_GET:
		return take_get(in);
	case CELL_REMOVE:
		return take_remove(in);
	case CELL_OUTPUT:
		return get_output(in, &m.output) && (put_output(&out, &m.output), true);
	case CELL_EXITED:
		return get_exited(in, &m.exited) && (put_exited(&out, &m.exited), true);
	case CELL_FILE:
		return take_file(in);
	case CELL_LISTED:
		return get_listed(in, &m.listed) && (put_listed(&out, &m.listed), true);
	case CELL_GOT:
		return get_got(in, &m.got) && (put_got(&out, &m.got), true);
	case CELL_SERVED:
		return get_served(in, &m.served) && (put_served(&out, &m.served), true);
	default:
		return false;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_in in = { .at = data + 1, .end = data + size };

	if (size == 0 || size > FRAME_MAX || !get_and_put(data[0], &in))
		return 0;
	CLAIM(!out.overflow);
	CLAIM(out.len == size && memcmp(out.bytes, data, size) == 0);
	return 0;
}
