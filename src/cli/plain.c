#include "cli/plain.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

/* The letter at the beginning of valid UTF-8, and how many bytes it has. */
static uint32_t letter_at(const char *text, size_t *ret_len)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t len = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	uint32_t letter = len == 1 ? at[0] : at[0] & (0xffU >> (len + 1));

	for (size_t i = 1; i < len; i++)
		letter = letter << 6 | (at[i] & 0x3f);
	*ret_len = len;
	return letter;
}

static bool is_control(uint32_t letter)
{
	static const struct {
		uint32_t first;
		uint32_t last;
	} ranges[] = {
		{ 0x00, 0x1f }, { 0x7f, 0x9f },
		{ 0xad, 0xad },     /* soft hyphen: there, and not to be seen */
		{ 0x61c, 0x61c },   /* from here on: marks of direction, and line ends */
		{ 0x200b, 0x200f }, /* with spaces of no width */
		{ 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
		{ 0xe0000, 0xe007f }, /* tags */
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (letter >= ranges[i].first && letter <= ranges[i].last)
			return true;
	return false;
}

void plain_add(struct buf *ret, const char *text, size_t len)
{
	auto_buf struct buf clean = { 0 };
	size_t at = 0;

	utf8_add_replaced(&clean, text, len);
	while (at < clean.len) {
		size_t more;

		if (is_control(letter_at(clean.data + at, &more)))
			buf_add(ret, "?", 1);
		else
			buf_add(ret, clean.data + at, more);
		at += more;
	}
	buf_add(ret, "", 0);
}

char *plain_text(const char *text)
{
	struct buf b = { 0 };

	plain_add(&b, text, strlen(text));
	return buf_take(&b);
}

static unsigned width_of(uint32_t letter)
{
	int width = wcwidth((wchar_t)letter);

	return width < 0 ? 1 : (unsigned)width;
}

unsigned plain_width(const char *text)
{
	unsigned width = 0;
	size_t len;

	for (; *text; text += len)
		width += width_of(letter_at(text, &len));
	return width;
}

void plain_add_padded(struct buf *ret, const char *text, unsigned width)
{
	unsigned used = 0;
	size_t len;

	while (*text && used + width_of(letter_at(text, &len)) <= width) {
		used += width_of(letter_at(text, &len));
		buf_add(ret, text, len);
		text += len;
	}
	buf_addf(ret, "%*s", (int)(width - used), "");
}
