/* Stored files. */
#include "api/handlers.h"

#include "base/own.h"
#include "base/path.h"
#include "base/utf8.h"

#include <string.h>

/* The bytes go straight into the store's directory, into a file without a name. */
void files_expect(struct call *call)
{
	struct err e = { 0 };

	call->body_fd = store_open_blob(call->service->store, &e);
	if (call->body_fd < 0)
		reply_err(call, &e);
	else
		http_want_part(
			call->x, "file", call->body_fd, call->service->config->file_max_bytes);
}

void files_too_large(struct call *call, unsigned status, const char *why)
{
	if (status == 413)
		reply_error(call, 413, "too_large", "File size exceeds maximum of %llu MB",
			(unsigned long long)(call->service->config->file_max_bytes >> 20));
	else
		reply_error(call, status, reply_code(status), "%s", why);
}

/* ---- adding ---- */

struct adding {
	struct call *call; /* NULL: the client is gone */
	struct store_file file;
};

static void on_client_gone(struct call *call, bool complete)
{
	struct adding *adding = call->state;

	(void)complete;
	adding->call = NULL;
}

static void on_added(void *context, const struct err *e)
{
	struct adding *adding = context;
	struct call *call = adding->call;

	if (call) {
		call->on_end = NULL;
		if (e)
			reply_err(call, e);
		else
			reply_json(call, 201,
				json_pack("{s:s, s:s, s:I}", "file_id", adding->file.id, "filename",
					adding->file.name, "size_bytes",
					(json_int_t)adding->file.size_bytes));
	}
	free(adding->file.name);
	free(adding->file.owner);
	free(adding);
}

/* The last name of what the client calls it, as valid text. */
static char *clean_name(const char *name)
{
	struct buf b = { 0 };

	if (!name || !*path_base(name))
		return xstrdup("file");
	utf8_add_replaced(&b, path_base(name), strlen(path_base(name)));
	buf_add(&b, "", 0);
	return buf_take(&b);
}

static bool has_room(const struct call *call, uint64_t more)
{
	uint64_t most = call->caller.rights.max_stored_bytes;

	return !most || store_owner_bytes(call->service->store, call->caller.owner) + more <= most;
}

void files_add(struct call *call)
{
	const char *name;
	uint64_t size;
	double now_s = service_now_s();
	uint64_t ttl_s = call->service->config->file_ttl_s;
	struct adding *adding;

	if (!http_part(call->x, &name, &size)) {
		reply_invalid(
			call, json_pack("[{s:s, s:[s, s], s:s, s:n}]", "type", "missing", "loc",
				      "body", "file", "msg", "Field required", "input"));
		return;
	}
	if (!has_room(call, size)) {
		reply_error(call, 413, "quota", "This key may store %llu bytes at most.",
			(unsigned long long)call->caller.rights.max_stored_bytes);
		return;
	}
	adding = xalloc(sizeof(*adding));
	adding->call = call;
	adding->file = (struct store_file){
		.owner = xstrdup(call->caller.owner),
		.name = clean_name(name),
		.size_bytes = size,
		.created_s = now_s,
		.expires_s = ttl_s ? now_s + (double)ttl_s : 0,
	};
	store_make_id(adding->file.id);
	call->state = adding;
	call->on_end = on_client_gone;
	store_add_file(
		call->service->store, &adding->file, take_fd(&call->body_fd), on_added, adding);
}

/* ---- the rest ---- */

void files_list(struct call *call)
{
	struct store_file *files = NULL;
	size_t count = 0;
	struct err e = { 0 };
	json_t *list;

	if (store_list_files(call->service->store, call->caller.owner, &files, &count, &e)) {
		reply_err(call, &e);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:f}", "file_id", files[i].id, "filename",
				      files[i].name, "size_bytes", (json_int_t)files[i].size_bytes,
				      "upload_time", files[i].created_s));
	store_files_free(files, count);
	reply_json(call, 200, json_pack("{s:o}", "files", list));
}

/* False: there is none, and that is answered. */
static bool find(struct call *call, struct store_file *ret)
{
	const char *id = call->params[0];
	struct err e = { 0 };

	if (store_is_id(id) &&
		store_find_file(call->service->store, id, call->caller.owner, ret, &e) == 0)
		return true;
	if (e.kind != ERR_NONE && e.kind != ERR_NOT_FOUND)
		reply_err(call, &e);
	else
		reply_error(call, 404, "not_found", "File with ID '%s' not found", id);
	return false;
}

/* RFC 6266: a name that everybody can read, and the true one for those who can. */
static void set_disposition(struct call *call, const char *name)
{
	auto_buf struct buf b = { 0 };

	buf_add_str(&b, "attachment; filename=\"");
	for (const char *at = name; *at; at++)
		buf_addf(&b, "%c", *at >= ' ' && *at < 127 && !strchr("\"\\/", *at) ? *at : '_');
	buf_add_str(&b, "\"; filename*=UTF-8''");
	for (const unsigned char *at = (const unsigned char *)name; *at; at++)
		if (*at < 128 &&
			strchr("!#$&+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
				*at))
			buf_addf(&b, "%c", *at);
		else
			buf_addf(&b, "%%%02X", *at);
	http_set_header(call->x, "Content-Disposition", b.data);
	/* Whatever is in it is not ours to vouch for. */
	http_set_header(call->x, "X-Content-Type-Options", "nosniff");
}

void reply_download(struct call *call, const char *name, int fd, uint64_t size)
{
	set_disposition(call, name);
	http_reply_file(call->x, 200, "application/octet-stream", fd, size);
}

void files_get(struct call *call)
{
	struct store_file file = { 0 };
	struct err e = { 0 };
	int fd;

	if (!find(call, &file))
		return;
	fd = store_open_file(call->service->store, file.id, &e);
	if (fd < 0)
		reply_err(call, &e);
	else
		reply_download(call, path_base(file.name), fd, file.size_bytes);
	store_file_free(&file);
}

struct removing {
	struct call *call;
	char id[STORE_ID_SIZE];
};

static void on_remover_gone(struct call *call, bool complete)
{
	struct removing *removing = call->state;

	(void)complete;
	removing->call = NULL;
}

static void on_removed(void *context, const struct err *e)
{
	struct removing *removing = context;
	struct call *call = removing->call;

	if (call) {
		call->on_end = NULL;
		if (!e)
			reply_nothing(call, 204);
		else if (e->kind == ERR_NOT_FOUND)
			reply_error(call, 404, "not_found", "File with ID '%s' not found",
				removing->id);
		else
			reply_err(call, e);
	}
	free(removing);
}

void files_remove(struct call *call)
{
	struct store_file file = { 0 };
	struct removing *removing;

	if (!find(call, &file))
		return;
	removing = xalloc(sizeof(*removing));
	removing->call = call;
	memcpy(removing->id, file.id, sizeof(file.id));
	store_file_free(&file);
	call->state = removing;
	call->on_end = on_remover_gone;
	store_remove_file(call->service->store, removing->id, on_removed, removing);
}
