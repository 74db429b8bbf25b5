#include "api/api.h"

#include "base/log.h"
#include "base/own.h"

#include <string.h>

/* ---- which route ---- */

/* "{name}": a segment; "{name…}": all that is left. */
static bool is_param(const char *pattern)
{
	return pattern[0] == '{';
}

static bool takes_rest(const char *pattern)
{
	size_t len = strcspn(pattern, "}");

	return len > 3 && memcmp(pattern + len - 3, "…", 3) == 0;
}

static bool take_param(struct call *call, unsigned *count, const char *text, size_t len)
{
	struct buf decoded = { 0 };

	if (*count == CALL_PARAMS_MAX || len == 0 || !http_decode(text, len, &decoded)) {
		buf_free(&decoded);
		return false;
	}
	call->params[(*count)++] = buf_take(&decoded);
	return true;
}

static void forget_params(struct call *call)
{
	for (int i = 0; i < CALL_PARAMS_MAX; i++)
		free(take_ptr(&call->params[i]));
}

static bool matches(struct call *call, const char *pattern, const char *path)
{
	unsigned count = 0;

	while (*pattern && *path) {
		size_t len;

		if (!is_param(pattern)) {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		len = takes_rest(pattern) ? strlen(path) : strcspn(path, "/");
		if (!take_param(call, &count, path, len))
			return false;
		path += len;
		pattern += strcspn(pattern, "}") + 1;
	}
	return *pattern == '\0' && *path == '\0';
}

/* False: there is none, and that is answered. */
static bool find_route(struct call *call)
{
	const char *path = http_path(call->x);
	auto_buf struct buf allowed = { 0 };

	for (size_t i = 0; i < routes_count; i++) {
		if (!matches(call, routes[i].pattern, path)) {
			forget_params(call);
			continue;
		}
		if (strcmp(routes[i].method, http_method(call->x)) == 0) {
			call->route = &routes[i];
			return true;
		}
		forget_params(call);
		buf_addf(&allowed, "%s%s", allowed.len ? ", " : "", routes[i].method);
	}
	if (allowed.len) {
		http_set_header(call->x, "Allow", allowed.data);
		reply_error(call, 405, "method", "Method Not Allowed");
	} else {
		reply_error(call, 404, "not_found", "Not Found");
	}
	return false;
}

/* ---- browsers ask before they ask ---- */

static void answer_preflight(struct call *call)
{
	http_set_header(call->x, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
	http_set_header(
		call->x, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-Key");
	http_set_header(call->x, "Access-Control-Max-Age", "600");
	reply_nothing(call, 204);
}

/* ---- from http ---- */

static struct call *call_new(struct api *api, struct http_exchange *x)
{
	struct call *call = xalloc(sizeof(*call));

	call->api = api;
	call->service = api->service;
	call->x = x;
	call->body_fd = -1;
	http_set_data(x, call);
	return call;
}

static void on_headers(void *context, struct http_exchange *x)
{
	struct api *api = context;
	struct call *call = call_new(api, x);

	api->service->metrics.requests++;
	if (!auth_admit_page(call))
		return;
	if (strcmp(http_method(x), "OPTIONS") == 0) {
		answer_preflight(call);
		return;
	}
	if (!find_route(call) || !auth_admit(call))
		return;
	if (call->route->on_headers)
		call->route->on_headers(call);
}

static void on_request(void *context, struct http_exchange *x)
{
	struct call *call = http_data(x);

	(void)context;
	call->route->on_request(call);
}

static void on_refused(void *context, struct http_exchange *x, unsigned status, const char *why)
{
	struct call *call = http_data(x);

	if (!call)
		call = call_new(context, x);
	if (call->route && call->route->on_refused)
		call->route->on_refused(call, status, why);
	else
		reply_error(call, status, reply_code(status), "%s", why);
}

static void on_end(void *context, struct http_exchange *x, bool complete)
{
	struct call *call = http_data(x);

	(void)context;
	if (!call)
		return;
	if (call->on_end)
		call->on_end(call, complete);
	forget_params(call);
	own_close(&call->body_fd);
	free(call);
}

static void on_room(void *context, struct http_exchange *x)
{
	struct call *call = http_data(x);

	(void)context;
	if (call && call->on_room)
		call->on_room(call);
}

void api_handlers(struct api *api, struct http_handlers *ret)
{
	*ret = (struct http_handlers){
		.on_headers = on_headers,
		.on_request = on_request,
		.on_refused = on_refused,
		.on_end = on_end,
		.on_room = on_room,
		.context = api,
	};
}
