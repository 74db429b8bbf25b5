/* wire_messages: claims that hold for every message, for the tests of both wires. */
#ifndef HOTCELL_TESTS_WIRE_MESSAGES_H
#define HOTCELL_TESTS_WIRE_MESSAGES_H

#include "testing.h"

#include "wire/frame.h"

struct message {
	const char *name;
	uint8_t type;
	void (*put)(struct frame_out *f);   /* a frame with every field set */
	bool (*get)(struct frame_in *f);    /* false = refused */
	void (*expect)(struct frame_in *f); /* asserts that every field is as put() set it */
};

void every_message_comes_back_as_it_was(const struct message *rows, size_t count);
/* Cut off anywhere, or with one byte more. */
void every_cut_or_longer_message_is_refused(const struct message *rows, size_t count);
/* One byte changed to every other value, anywhere: refused or taken, but nothing beyond its bytes
 * is read (the sanitizer build watches) and strings that come out are within the frame. */
void no_changed_byte_does_harm(const struct message *rows, size_t count);

#endif
