/* GET /openapi.json.
 *
 * The two files are OpenAPI with these abbreviations, so that they can be read:
 *
 *	"json": "Result"            content: application/json, with the schema of that name; so for the rows of media[]
 *	"404": "There is none."     a response that is an Error; one to come back after has Retry-After
 *	"query": {"limit": {…}}     a parameter: a schema, whose description is the parameter's
 *	"headers": {"ETag": "…"}    a header of a response: a text
 *	"maximum": {"setting": "timeout_max_ms"}    that setting's value; "per": divided by that. 0 is no bound: left out
 *
 * What the table of routes tells is in neither: path, method, summary, parameters of the path, whether a key is
 * needed. Answers that any such route can give are in "common" once, by status. */
#include "api/openapi.h"

#include "api/handlers.h"
#include "base/own.h"
#include "config/table.h"

#include "api_files.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* ---- abbreviations ---- */

static const struct {
	const char *name;
	const char *type;
} media[] = {
	{ "json", "application/json" },
	{ "form", "multipart/form-data" },
	{ "events", "text/event-stream" },
	{ "lines", "application/x-ndjson" },
	{ "bytes", "application/octet-stream" },
	{ "tar", "application/x-tar" },
	{ "text", "text/plain" },
	{ "page", "text/html" },
	{ "script", "text/javascript" },
	{ "style", "text/css" },
};

static json_t *reference(const char *kind, const char *name)
{
	return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

/* A name, or a schema that has none; an empty one says nothing. */
static json_t *content_of(json_t *schema)
{
	if (json_is_string(schema))
		return json_pack(
			"{s:o}", "schema", reference("schemas", json_string_value(schema)));
	return json_object_size(schema) ? json_pack("{s:O}", "schema", schema) : json_object();
}

static void add_content(json_t *to, json_t *from)
{
	json_t *content = json_object();

	for (size_t i = 0; i < COUNT(media); i++) {
		json_t *schema = json_object_get(from, media[i].name);

		if (schema)
			json_object_set_new(content, media[i].type, content_of(schema));
	}
	if (json_object_size(content))
		json_object_set(to, "content", content);
	json_decref(content);
}

static json_t *headers_of(json_t *texts)
{
	json_t *headers = json_object();
	const char *name;
	json_t *text;

	json_object_foreach(texts, name, text)
	{
		json_object_set_new(headers, name,
			json_pack(
				"{s:O, s:{s:s}}", "description", text, "schema", "type", "string"));
	}
	return headers;
}

static json_t *error_response(const char *status, json_t *text)
{
	json_t *o = json_pack("{s:O, s:{s:{s:o}}}", "description", text, "content",
		"application/json", "schema", reference("schemas", "Error"));

	if (strcmp(status, "429") == 0 || strcmp(status, "503") == 0)
		json_object_set_new(o, "headers",
			json_pack("{s:{s:s, s:{s:s}}}", "Retry-After", "description",
				"Seconds to wait.", "schema", "type", "integer"));
	return o;
}

static json_t *response_of(const char *status, json_t *from)
{
	json_t *headers = json_object_get(from, "headers");
	json_t *o;

	if (json_is_string(from))
		return error_response(status, from);
	o = json_pack("{s:O}", "description", json_object_get(from, "description"));
	if (headers)
		json_object_set_new(o, "headers", headers_of(headers));
	add_content(o, from);
	return o;
}

/* ---- settings ---- */

/* NULL: there is no bound. */
static json_t *setting_value(const struct config *config, json_t *wish)
{
	const struct config_row *row =
		config_find_row(json_string_value(json_object_get(wish, "setting")));
	const void *at = (const char *)config + row->offset;
	json_int_t per = json_integer_value(json_object_get(wish, "per"));
	uint64_t value;

	if (row->kind == CONFIG_CHOICE)
		return json_string(row->choices[*(const unsigned *)at]);
	assert(row->kind == CONFIG_NUMBER || row->kind == CONFIG_SIZE || row->kind == CONFIG_MS ||
		row->kind == CONFIG_S);
	value = *(const uint64_t *)at;
	if (value == 0)
		return NULL;
	return per ? json_real((double)value / (double)per) : json_integer((json_int_t)value);
}

static void fill_settings(const struct config *config, json_t *o);

static void fill_setting(const struct config *config, json_t *o, const char *name, json_t *value)
{
	json_t *number;

	if (!json_object_get(value, "setting")) {
		fill_settings(config, value);
		return;
	}
	number = setting_value(config, value);
	if (number)
		json_object_set_new(o, name, number);
	else
		json_object_del(o, name);
}

/* Goes as deep as our own files do. A default of the API's that is over the service's maximum is that. */
static void fill_settings(const struct config *config, json_t *o) /* NOLINT(misc-no-recursion) */
{
	const char *name;
	json_t *value;
	json_t *most;
	void *next;
	size_t i;

	json_array_foreach(o, i, value)
	{
		fill_settings(config, value);
	}
	json_object_foreach_safe(o, next, name, value)
	{
		fill_setting(config, o, name, value);
	}
	most = json_object_get(o, "maximum");
	if (json_is_integer(most) &&
		json_integer_value(json_object_get(o, "default")) > json_integer_value(most))
		json_object_set(o, "default", most);
}

/* ---- an operation ---- */

static bool has_body(const struct route *route, json_t *said)
{
	(void)route;
	return json_object_get(said, "body");
}

static bool wants_key(const struct route *route, json_t *said)
{
	(void)said;
	return route->access != ROUTE_OPEN;
}

static bool is_any(const struct route *route, json_t *said)
{
	(void)route;
	(void)said;
	return true;
}

/* Answers that do not depend on what a route does; those with a body: http, of the rest: auth. */
static const struct {
	unsigned status;
	bool (*may_come)(const struct route *route, json_t *said);
} common[] = {
	{ 400, is_any },
	{ 401, wants_key },
	{ 403, is_any },
	{ 408, has_body },
	{ 413, has_body },
	{ 421, is_any },
	{ 500, wants_key },
	{ 503, is_any },
};

static bool is_common(unsigned status, const struct route *route, json_t *said)
{
	for (size_t i = 0; i < COUNT(common); i++)
		if (common[i].status == status)
			return common[i].may_come(route, said);
	return false;
}

static json_t *responses_of(const struct route *route, json_t *said)
{
	json_t *responses = json_object();

	for (unsigned status = 200; status < 600; status++) {
		char name[8];
		json_t *own;

		snprintf(name, sizeof(name), "%u", status);
		own = json_object_get(said, name);
		if (own)
			json_object_set_new(responses, name, response_of(name, own));
		else if (is_common(status, route, said))
			json_object_set_new(responses, name, reference("responses", name));
	}
	return responses;
}

/* "/v1/files/{file_id}" has one; "{path…}" is called path. */
static void add_path_parameters(json_t *list, const char *pattern, json_t *all)
{
	for (const char *at = strchr(pattern, '{'); at; at = strchr(at, '{')) {
		size_t len = strcspn(++at, "}…");
		json_t *schema = json_object_getn(all, at, len);

		json_array_append_new(
			list, json_pack("{s:s%, s:s, s:b, s:O, s:O}", "name", at, len, "in", "path",
				      "required", 1, "description",
				      json_object_get(schema, "description"), "schema", schema));
	}
}

static void add_query_parameters(json_t *list, json_t *query)
{
	const char *name;
	json_t *schema;

	json_object_foreach(query, name, schema)
	{
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:O, s:O}", "name", name, "in", "query",
				      "description", json_object_get(schema, "description"),
				      "schema", schema));
	}
}

static json_t *body_of(json_t *said)
{
	json_t *o =
		json_pack("{s:b}", "required", !json_is_true(json_object_get(said, "optional")));

	add_content(o, said);
	return o;
}

static json_t *operation_of(const struct route *route, json_t *said, json_t *params)
{
	json_t *o = json_pack("{s:O, s:[O], s:s, s:O}", "operationId", json_object_get(said, "id"),
		"tags", json_object_get(said, "tag"), "summary", route->summary, "description",
		json_object_get(said, "description"));
	json_t *list = json_array();
	json_t *body = json_object_get(said, "body");

	add_path_parameters(list, route->pattern, params);
	add_query_parameters(list, json_object_get(said, "query"));
	if (json_array_size(list))
		json_object_set(o, "parameters", list);
	json_decref(list);
	if (body)
		json_object_set_new(o, "requestBody", body_of(body));
	json_object_set_new(o, "responses", responses_of(route, said));
	/* For the rest it is what stands at the top of the document. */
	if (route->access == ROUTE_OPEN)
		json_object_set_new(o, "security", json_array());
	return o;
}

/* ---- the document ---- */

static json_t *parse(const unsigned char *text, size_t len)
{
	json_error_t error;
	json_t *o = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, &error);

	/* It is our own, and a test reads it. */
	assert(o);
	return o;
}

/* "/files/{path…}" is "/files/{path}" there. */
static char *path_name(const char *pattern)
{
	struct buf b = { 0 };

	for (const char *at = pattern; *at; at++)
		if (isascii((unsigned char)*at))
			buf_add(&b, at, 1);
	return buf_take(&b);
}

static json_t *paths_of(json_t *said, json_t *params)
{
	json_t *paths = json_object();

	for (size_t i = 0; i < routes_count; i++) {
		const struct route *route = &routes[i];
		auto_free char *key = xasprintf("%s %s", route->method, route->pattern);
		auto_free char *path = path_name(route->pattern);
		auto_free char *method = xstrdup(route->method);
		json_t *item = json_object_get(paths, path);

		for (char *at = method; *at; at++)
			*at = (char)tolower((unsigned char)*at);
		if (!item) {
			item = json_object();
			json_object_set_new(paths, path, item);
		}
		json_object_set_new(
			item, method, operation_of(route, json_object_get(said, key), params));
	}
	return paths;
}

static json_t *common_responses(json_t *said)
{
	json_t *responses = json_object();
	const char *status;
	json_t *text;

	json_object_foreach(said, status, text)
	{
		json_object_set_new(responses, status, response_of(status, text));
	}
	return responses;
}

json_t *openapi_make(const struct config *config)
{
	json_t *said = parse(embedded_operations_json, sizeof(embedded_operations_json));
	json_t *schemas = parse(embedded_schemas_json, sizeof(embedded_schemas_json));
	json_t *document = json_pack("{s:s, s:O, s:O, s:[{s:[]}, {s:[]}], s:o, s:{s:O, s:o, s:o}}",
		"openapi", "3.1.0", "info", json_object_get(said, "info"), "tags",
		json_object_get(said, "tags"), "security", "bearer", "apiKey", "paths",
		paths_of(json_object_get(said, "operations"), json_object_get(said, "params")),
		"components", "securitySchemes", json_object_get(said, "security"), "responses",
		common_responses(json_object_get(said, "common")), "schemas", schemas);

	json_object_set_new(
		json_object_get(document, "info"), "version", json_string(HOTCELL_VERSION));
	fill_settings(config, document);
	json_decref(said);
	return document;
}

/* ---- for clients ---- */

void openapi_forget(struct api *api)
{
	free(take_ptr(&api->openapi));
}

void openapi_get(struct call *call)
{
	struct api *api = call->api;

	if (!api->openapi) {
		json_t *document = openapi_make(call->service->config);

		api->openapi = json_dumps(document, JSON_COMPACT);
		json_decref(document);
	}
	reply_page(call, "application/json", api->openapi, strlen(api->openapi));
}
