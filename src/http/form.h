/* form: multipart/form-data, of which one part is wanted. Takes the bytes as they come, in pieces of any size, and keeps
 * nothing but the headers of the part at hand, up to FORM_HEADERS_MAX. */
#ifndef HOTCELL_HTTP_FORM_H
#define HOTCELL_HTTP_FORM_H

#include <stdbool.h>
#include <stddef.h>

enum { FORM_HEADERS_MAX = 8 * 1024 };

struct form;

/* NULL if that Content-Type is not a form's, or has no sound boundary. */
struct form *form_new(const char *content_type, const char *wanted);
void form_free(struct form *f);

/* Calls on_data for what belongs to the wanted part; it returns 0, or anything else to stop. 0, or -1 if the form is
 * malformed or on_data has stopped it. */
int form_feed(struct form *f, const char *data, size_t len,
	int (*on_data)(void *context, const char *data, size_t len), void *context);

/* The last boundary has come. */
bool form_is_complete(const struct form *f);
/* The wanted part has begun (and is whole, if the form is complete). */
bool form_has_part(const struct form *f);
const char *form_filename(const struct form *f); /* NULL if it has none */

#endif
