#include "wire_messages.h"

#include <stdlib.h>
#include <string.h>

static struct frame_out out;

static struct frame_in view(const uint8_t *bytes, size_t len)
{
	return (struct frame_in){ .at = bytes + 1, .end = bytes + len };
}

void every_message_comes_back_as_it_was(const struct message *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct frame_in in;

		rows[i].put(&out);
		assert_false(out.overflow);
		assert_int_equal(out.bytes[0], rows[i].type);
		in = view(out.bytes, out.len);
		if (!rows[i].get(&in))
			fail_msg("%s: its own frame is refused", rows[i].name);
		in = view(out.bytes, out.len);
		rows[i].expect(&in);
	}
}

/* In memory that ends where the frame ends, so that the sanitizer sees the first byte too many. */
static bool takes(const struct message *row, const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len);
	struct frame_in in;
	bool taken;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	in = view(exact, len);
	taken = row->get(&in);
	free(exact);
	return taken;
}

void every_cut_or_longer_message_is_refused(const struct message *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		rows[i].put(&out);
		for (size_t len = 1; len < out.len; len++)
			if (takes(&rows[i], out.bytes, len))
				fail_msg("%s: the first %zu of %zu bytes are taken", rows[i].name,
					len, out.len);
		out.bytes[out.len] = 0;
		if (takes(&rows[i], out.bytes, out.len + 1))
			fail_msg("%s: taken with a byte left over", rows[i].name);
	}
}

void no_changed_byte_does_harm(const struct message *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		rows[i].put(&out);
		for (size_t at = 1; at < out.len; at++) {
			uint8_t before = out.bytes[at];

			for (unsigned value = 0; value < 256; value++) {
				out.bytes[at] = (uint8_t)value;
				takes(&rows[i], out.bytes, out.len);
			}
			out.bytes[at] = before;
		}
		assert_true(takes(&rows[i], out.bytes, out.len));
	}
}
