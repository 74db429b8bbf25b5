/* trace_words: how values are written in a trace, as strace writes them. Knows nothing of the guest: what it is given
 * has been copied, and is hostile. */
#ifndef HOTCELL_VMM_TRACE_WORDS_H
#define HOTCELL_VMM_TRACE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text behind each other; what does not fit is left off. */
struct line {
	char text[4096];
	size_t used;
};

void line_put(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In quotes, and nothing but plain ASCII. With dots behind it if there was more. */
void line_quote(struct line *l, const void *data, size_t len, bool is_cut);
/* By names, which is false for a kind (calls.h) that has none. */
bool line_names(struct line *l, char kind, uint64_t value);

#endif
