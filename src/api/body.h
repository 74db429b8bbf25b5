/* body: the JSON of a request, field by field, with every complaint in the words that clients know: a list of
 * {type, loc, msg, input}.
 *
 *	body_open() ──▶ body_text(), body_integer(), …  ──▶ body_close(): true if there was nothing wrong */
#ifndef HOTCELL_API_BODY_H
#define HOTCELL_API_BODY_H

#include "api/api.h"

enum { BODY_DEPTH_MAX = 4 };

struct body {
	struct call *call;
	json_t *root;
	json_t *errors;                /* NULL while there are none */
	json_t *place[BODY_DEPTH_MAX]; /* where we are: names and indices */
	unsigned depth;
};

/* False: it is no JSON object, and that is answered. */
bool body_open(struct call *call, struct body *ret);
/* The same, where none is as good as {}. */
bool body_open_or_none(struct call *call, struct body *ret);
/* False: something was wrong, and *ret tells. What was read is good until body_free(). */
bool body_is_good(struct body *b, struct refusal *ret);
void body_free(struct body *b);

/* A field of `o`. NULL (or `otherwise`) if it is not there, is null, or is wrong. */
const char *body_text(struct body *b, json_t *o, const char *name); /* without NULs */
/* May have NULs: json_string_value(), json_string_length(). */
json_t *body_bytes(struct body *b, json_t *o, const char *name, bool required);
bool body_bool(struct body *b, json_t *o, const char *name, bool otherwise);
uint64_t body_integer(struct body *b, json_t *o, const char *name, uint64_t least, uint64_t most,
	uint64_t otherwise);
/* An index into `names`, which is NULL-terminated. */
int body_choice(
	struct body *b, json_t *o, const char *name, const char *const *names, int otherwise);
json_t *body_list(struct body *b, json_t *o, const char *name, size_t most);
json_t *body_object(struct body *b, json_t *o, const char *name);
/* For what is read from within it. */
void body_enter(struct body *b, const char *name);
void body_enter_item(struct body *b, size_t index);
/* The same; false, with a complaint, if the item is no object. To be left in any case. */
bool body_enter_object(struct body *b, size_t index, json_t *item);
void body_leave(struct body *b);
/* Something is wrong with a field (NULL: with where we are). */
void body_complain(struct body *b, const char *name, const char *type, json_t *input,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
