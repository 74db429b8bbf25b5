/* Bytes that a program printed. Whatever they are, what comes out is valid; what was valid is not
 * touched. */
#include "fuzz.h"

#include "base/utf8.h"

#include <string.h>

/* Validity written another way: decode, then look at the value. */
static bool is_valid(const uint8_t *p, size_t size)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	for (size_t at = 0; at < size;) {
		size_t len = p[at] < 0x80 ? 1 : p[at] >> 5 == 6 ? 2 : p[at] >> 4 == 14 ? 3 : 4;
		uint32_t value = len == 1 ? p[at] : p[at] & (0x7fU >> len);

		if ((len == 4 && p[at] >> 3 != 30) || len > size - at)
			return false;
		for (size_t i = 1; i < len; i++) {
			if (p[at + i] >> 6 != 2)
				return false;
			value = value << 6 | (p[at + i] & 0x3f);
		}
		if (value < least[len] || value > 0x10ffff || value >> 11 == 0x1b)
			return false;
		at += len;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct buf out = { 0 };

	CLAIM(utf8_valid(text, size) == is_valid(data, size));
	utf8_add_replaced(&out, text, size);
	CLAIM(is_valid((const uint8_t *)out.data, out.len));
	if (is_valid(data, size))
		CLAIM(out.len == size && memcmp(out.data, text, size) == 0);
	else
		CLAIM(memmem(out.data, out.len, "\xef\xbf\xbd", 3));
	/* A replacement is at most two bytes longer than what it stands for. */
	CLAIM(out.len <= 3 * size);
	buf_free(&out);
	return 0;
}
