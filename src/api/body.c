#include "api/body.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ERRORS_MAX = 20, FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY };

/* ---- complaints ---- */

static json_t *place_of(const struct body *b, const char *name)
{
	json_t *place = json_pack("[s]", "body");

	for (unsigned i = 0; i < b->depth; i++)
		json_array_append(place, b->place[i]);
	if (name)
		json_array_append_new(place, json_string(name));
	return place;
}

/* What was sent is told again, but not at any length. */
static json_t *shorten(json_t *input)
{
	enum { TEXT_MAX = 1000, ALL_MAX = 8000 };

	if (json_is_string(input) && json_string_length(input) > TEXT_MAX)
		return reply_text(json_string_value(input), TEXT_MAX);
	if (json_dumpb(input, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > ALL_MAX)
		return json_null();
	return json_incref(input);
}

void body_complain(
	struct body *b, const char *name, const char *type, json_t *input, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!b->errors)
		b->errors = json_array();
	if (json_array_size(b->errors) < ERRORS_MAX)
		json_array_append_new(b->errors,
			json_pack("{s:s, s:o, s:s, s:o}", "type", type, "loc", place_of(b, name),
				"msg", text, "input", shorten(input ? input : b->root)));
}

/* ---- beginning and end ---- */

static void refuse_json(struct call *call, const json_error_t *error)
{
	json_t *detail = json_pack("[{s:s, s:[s, i], s:s, s:{}, s:{s:s}}]", "type", "json_invalid",
		"loc", "body", error->position, "msg", "JSON decode error", "input", "ctx", "error",
		error->text);

	reply_invalid(call, detail);
}

bool body_open(struct call *call, struct body *ret)
{
	json_error_t error;
	size_t len;
	const char *text = http_body(call->x, &len);

	*ret = (struct body){ .call = call };
	if (len == 0) {
		reply_invalid(call, json_pack("[{s:s, s:[s], s:s, s:n}]", "type", "missing", "loc",
					    "body", "msg", "Field required", "input"));
		return false;
	}
	ret->root = json_loadb(text, len, FLAGS, &error);
	/* A field with such a number says itself what it takes. */
	if (!ret->root && json_error_code(&error) == json_error_numeric_overflow)
		ret->root = json_loadb(text, len, FLAGS | JSON_DECODE_INT_AS_REAL, &error);
	if (!ret->root) {
		refuse_json(call, &error);
		return false;
	}
	if (!json_is_object(ret->root)) {
		json_t *input = shorten(ret->root);

		reply_invalid(call,
			json_pack("[{s:s, s:[s], s:s, s:o}]", "type", "model_attributes_type",
				"loc", "body", "msg",
				"Input should be a valid dictionary or object to extract fields from",
				"input", input));
		json_decref(ret->root);
		ret->root = NULL;
		return false;
	}
	return true;
}

bool body_open_or_none(struct call *call, struct body *ret)
{
	size_t len;

	http_body(call->x, &len);
	if (len)
		return body_open(call, ret);
	*ret = (struct body){ .call = call, .root = json_object() };
	return true;
}

void body_free(struct body *b)
{
	while (b->depth)
		body_leave(b);
	json_decref(b->errors);
	json_decref(b->root);
	b->errors = b->root = NULL;
}

bool body_is_good(struct body *b, struct refusal *ret)
{
	if (!b->errors)
		return true;
	*ret = (struct refusal){ .status = 422, .code = "invalid", .errors = b->errors };
	b->errors = NULL;
	return false;
}

void body_enter(struct body *b, const char *name)
{
	b->place[b->depth++] = json_string(name);
}

void body_enter_item(struct body *b, size_t index)
{
	b->place[b->depth++] = json_integer((json_int_t)index);
}

bool body_enter_object(struct body *b, size_t index, json_t *item)
{
	body_enter_item(b, index);
	if (json_is_object(item))
		return true;
	body_complain(b, NULL, "model_attributes_type", item,
		"Input should be a valid dictionary or object to extract fields from");
	return false;
}

void body_leave(struct body *b)
{
	json_decref(b->place[--b->depth]);
}

/* ---- fields ---- */

/* NULL if it is not there, or null. */
static json_t *get(json_t *o, const char *name)
{
	json_t *value = json_object_get(o, name);

	return json_is_null(value) ? NULL : value;
}

json_t *body_bytes(struct body *b, json_t *o, const char *name, bool required)
{
	json_t *value = json_object_get(o, name);

	if (!value) {
		if (required)
			body_complain(b, name, "missing", o, "Field required");
		return NULL;
	}
	if (json_is_null(value) && !required)
		return NULL;
	if (!json_is_string(value)) {
		body_complain(b, name, "string_type", value, "Input should be a valid string");
		return NULL;
	}
	return value;
}

const char *body_text(struct body *b, json_t *o, const char *name)
{
	json_t *value = body_bytes(b, o, name, false);

	if (!value)
		return NULL;
	if (strlen(json_string_value(value)) != json_string_length(value)) {
		body_complain(
			b, name, "value_error", value, "Value error, it must not contain NUL");
		return NULL;
	}
	return json_string_value(value);
}

/* As existing services read booleans. */
static int bool_of(json_t *value)
{
	static const char *const yes[] = { "true", "1", "yes", "on", "t", "y" };
	static const char *const no[] = { "false", "0", "no", "off", "f", "n" };

	if (json_is_boolean(value))
		return json_is_true(value);
	if (json_is_integer(value) && json_integer_value(value) >= 0 &&
		json_integer_value(value) <= 1)
		return (int)json_integer_value(value);
	for (size_t i = 0; json_is_string(value) && i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcasecmp(json_string_value(value), yes[i]) == 0)
			return 1;
		if (strcasecmp(json_string_value(value), no[i]) == 0)
			return 0;
	}
	return -1;
}

bool body_bool(struct body *b, json_t *o, const char *name, bool otherwise)
{
	json_t *value = get(o, name);
	int found = value ? bool_of(value) : otherwise;

	if (found >= 0)
		return found;
	if (json_is_string(value) || json_is_number(value))
		body_complain(b, name, "bool_parsing", value,
			"Input should be a valid boolean, unable to interpret input");
	else
		body_complain(b, name, "bool_type", value, "Input should be a valid boolean");
	return otherwise;
}

/* Also 2000.0 and "2000"; what no integer can hold is the largest, which nothing takes. False: complained. */
static bool integer_of(struct body *b, const char *name, json_t *value, json_int_t *ret)
{
	if (json_is_integer(value)) {
		*ret = json_integer_value(value);
		return true;
	}
	if (json_is_real(value)) {
		double number = json_real_value(value);

		if (number == floor(number)) {
			*ret = fabs(number) < 9e15 ? (json_int_t)number :
			       number > 0          ? INT64_MAX :
						     INT64_MIN;
			return true;
		}
		body_complain(b, name, "int_from_float", value,
			"Input should be a valid integer, got a number with a fractional part");
		return false;
	}
	if (json_is_string(value)) {
		const char *text = json_string_value(value);
		char *end;

		*ret = strtoll(text, &end, 10);
		if (end != text && *end == '\0' && strlen(text) == json_string_length(value))
			return true;
		body_complain(b, name, "int_parsing", value,
			"Input should be a valid integer, unable to parse string as an integer");
		return false;
	}
	body_complain(b, name, "int_type", value, "Input should be a valid integer");
	return false;
}

uint64_t body_integer(struct body *b, json_t *o, const char *name, uint64_t least, uint64_t most,
	uint64_t otherwise)
{
	json_t *value = get(o, name);
	json_int_t number;

	if (!value || !integer_of(b, name, value, &number))
		return otherwise;
	if (number < 0 || (uint64_t)number < least)
		body_complain(b, name, "greater_than_equal", value,
			"Input should be greater than or equal to %llu", (unsigned long long)least);
	else if ((uint64_t)number > most)
		body_complain(b, name, "less_than_equal", value,
			"Input should be less than or equal to %llu", (unsigned long long)most);
	else
		return (uint64_t)number;
	return otherwise;
}

int body_choice(
	struct body *b, json_t *o, const char *name, const char *const *names, int otherwise)
{
	const char *text = body_text(b, o, name);
	char list[160] = "";
	size_t used = 0;

	if (!text)
		return otherwise;
	for (int i = 0; names[i]; i++) {
		int more;

		if (strcmp(names[i], text) == 0)
			return i;
		more = snprintf(list + used, sizeof(list) - used, "%s'%s'",
			i == 0       ? "" :
			names[i + 1] ? ", " :
				       " or ",
			names[i]);
		used += more > 0 && used + (size_t)more < sizeof(list) ? (size_t)more : 0;
	}
	body_complain(
		b, name, "literal_error", json_object_get(o, name), "Input should be %s", list);
	return otherwise;
}

json_t *body_list(struct body *b, json_t *o, const char *name, size_t most)
{
	json_t *value = get(o, name);

	if (!value)
		return NULL;
	if (!json_is_array(value)) {
		body_complain(b, name, "list_type", value, "Input should be a valid list");
		return NULL;
	}
	if (json_array_size(value) > most) {
		body_complain(b, name, "too_long", json_null(),
			"List should have at most %zu items after validation, not %zu", most,
			json_array_size(value));
		return NULL;
	}
	return value;
}

json_t *body_object(struct body *b, json_t *o, const char *name)
{
	json_t *value = get(o, name);

	if (value && !json_is_object(value)) {
		body_complain(b, name, "dict_type", value, "Input should be a valid dictionary");
		return NULL;
	}
	return value;
}
