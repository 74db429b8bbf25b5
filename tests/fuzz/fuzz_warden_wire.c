/* Frames of the warden's socket, as either side reads them. What is taken must be written again as
 * the very same bytes: so nothing in a frame has two readings. */
#include "fuzz.h"

#include "wire/warden_wire.h"

#include <string.h>

static struct frame_out out;

static bool get_and_put(uint8_t type, struct frame_in *in)
{
	union {
		struct msg_path path;
		struct msg_make make;
		struct msg_limit limit;
		struct msg_order order;
		struct msg_cell cell;
		struct msg_made made;
		struct msg_usage usage;
		struct msg_gone gone;
		struct msg_checked checked;
	} m;

	switch (type) {
	case WARDEN_ALLOW:
		return get_path(in, &m.path) && (put_path(&out, WARDEN_ALLOW, &m.path), true);
	case WARDEN_MAKE:
		return get_make(in, &m.make) && (put_make(&out, &m.make), true);
	case WARDEN_LIMIT:
		return get_limit(in, &m.limit) && (put_limit(&out, &m.limit), true);
	case WARDEN_ORDER:
		return get_order(in, &m.order) && (put_order(&out, &m.order), true);
	case WARDEN_ACCOUNT:
	case WARDEN_KILL:
		return get_cell(in, &m.cell) &&
		       (put_cell(&out, (enum warden_frame)type, &m.cell), true);
	case WARDEN_SEAL:
	case WARDEN_CHECK:
	case WARDEN_CHECK_END:
		return get_nothing(in) && (put_nothing(&out, (enum warden_frame)type), true);
	case WARDEN_MADE:
		return get_made(in, &m.made) && (put_made(&out, &m.made), true);
	case WARDEN_USAGE:
		return get_usage(in, &m.usage) && (put_usage(&out, &m.usage), true);
	case WARDEN_GONE:
		return get_gone(in, &m.gone) && (put_gone(&out, &m.gone), true);
	case WARDEN_CHECKED:
		return get_checked(in, &m.checked) && (put_checked(&out, &m.checked), true);
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
