/* buf: bytes that grow. Running out of memory ends the program: none of ours can go on usefully
 * without it, and every size that comes from outside is bounded before it gets here. */
#ifndef HOTCELL_BASE_BUF_H
#define HOTCELL_BASE_BUF_H

#include <stddef.h>

struct buf {
	char *data; /* NUL behind the last byte once anything was added */
	size_t len;
	size_t cap;
};

#define auto_buf __attribute__((cleanup(buf_free)))

void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *text);
void buf_addf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `len` more bytes and returns where they go; the caller then adds to b->len. */
char *buf_reserve(struct buf *b, size_t len);
void buf_clear(struct buf *b);
void buf_free(struct buf *b);
/* The bytes as a string that the caller frees; b is empty afterwards. */
char *buf_take(struct buf *b);

void *xalloc(size_t size); /* zeroed; never NULL */
void *xgrow(void *old, size_t size);
char *xstrdup(const char *text);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
