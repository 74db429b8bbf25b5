/* The files of a session, one by one. */
#include "api/session_files.h"

#include "api/handlers.h"
#include "api/run_request.h"
#include "api/visit.h"
#include "base/own.h"
#include "base/path.h"

#include <string.h>

struct file_visit {
	struct visit visit;
	char *path;
	bool only_generated;
	/* What is put there. */
	int fd;
	uint64_t size_bytes;
	char host_path[32];
	struct hotcell_input input;
};

static struct file_visit *file_visit_of(struct visit *v)
{
	return container_of(v, struct file_visit, visit);
}

static void free_file_visit(struct visit *v)
{
	struct file_visit *f = file_visit_of(v);

	own_close(&f->fd);
	free(f->path);
	free(f);
}

static struct file_visit *file_visit_new(const struct call *call)
{
	struct file_visit *f = xalloc(sizeof(*f));

	f->fd = -1;
	f->path = call->params[1] ? xstrdup(call->params[1]) : NULL;
	f->visit.on_free = free_file_visit;
	return f;
}

/* The session and the path that the call names. NULL: one of them is none, and that is answered. */
static struct session *find(struct call *call)
{
	struct session *session = visit_find(call);
	struct refusal refusal;

	if (!session || !visit_may_wait(call, session))
		return NULL;
	if (call->params[1] && run_request_path(call->params[1], NULL, &refusal)) {
		reply_refusal(call, &refusal);
		return NULL;
	}
	return session;
}

/* ---- all of them ---- */

json_t *session_files_json(const struct session_found *found, bool only_generated)
{
	json_t *list = json_array();

	for (size_t i = 0; i < found->count; i++) {
		const struct session_file *f = &found->files[i];

		if (!only_generated || f->generated)
			json_array_append_new(
				list, json_pack("{s:o, s:s, s:I, s:b}", "path",
					      reply_text(f->path, strlen(f->path)), "kind", f->kind,
					      "size_bytes", (json_int_t)f->size_bytes, "generated",
					      f->generated));
	}
	return list;
}

static void list_on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_LIST });
}

static void list_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	if (failure) {
		visit_fail(v, failure);
		return;
	}
	if (v->call)
		reply_json(v->call, 200,
			json_pack("{s:o, s:b}", "files",
				session_files_json(found, file_visit_of(v)->only_generated),
				"incomplete", found->is_incomplete));
	session_found_free(found);
	visit_end(v);
}

void session_files_list(struct call *call)
{
	struct session *session = find(call);
	const char *generated = http_query(call->x, "generated");
	struct file_visit *f;

	if (!session)
		return;
	if (generated && strcmp(generated, "true") != 0 && strcmp(generated, "false") != 0) {
		reply_error(call, 422, "invalid", "generated must be true or false");
		return;
	}
	f = file_visit_new(call);
	f->only_generated = generated && *generated == 't';
	f->visit.on_turn = list_on_turn;
	f->visit.on_found = list_on_found;
	visit_begin(&f->visit, call, session);
}

/* ---- putting one ---- */

/* The bytes go into a file without a name, which gets one in a mirror, or is read from there by the cell. */
void session_files_take_body(struct call *call, uint64_t max)
{
	struct err e = { 0 };

	call->body_fd = store_open_blob(call->service->store, &e);
	if (call->body_fd < 0)
		reply_err(call, &e);
	else
		http_want_body_in(call->x, call->body_fd, max);
}

void session_files_expect(struct call *call)
{
	if (find(call))
		session_files_take_body(call, call->service->config->file_max_bytes);
}

static void put_on_turn(struct visit *v)
{
	struct file_visit *f = file_visit_of(v);

	snprintf(f->host_path, sizeof(f->host_path), "/proc/self/fd/%d", f->fd);
	f->input = (struct hotcell_input){ .path = f->path, .host_path = f->host_path };
	session_files(&v->turn,
		&(struct hotcell_files){
			.kind = HOTCELL_FILES_PUT, .inputs = &f->input, .inputs_count = 1 });
}

static void put_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	const struct file_visit *f = file_visit_of(v);

	session_found_free(found);
	if (failure) {
		visit_fail(v, failure);
		return;
	}
	if (v->call)
		reply_json(v->call, 200,
			json_pack("{s:o, s:s, s:I}", "path", reply_text(f->path, strlen(f->path)),
				"kind", "file", "size_bytes", (json_int_t)f->size_bytes));
	visit_end(v);
}

void session_files_put(struct call *call)
{
	struct session *session = find(call); /* it may be gone by now */
	struct file_visit *f;

	if (!session)
		return;
	f = file_visit_new(call);
	f->fd = take_fd(&call->body_fd);
	fchmod(f->fd, 0644); /* as what a program makes; above a mirror nobody else looks */
	f->size_bytes = http_body_size(call->x);
	f->visit.on_turn = put_on_turn;
	f->visit.on_found = put_on_found;
	visit_begin(&f->visit, call, session);
}

/* ---- getting one ---- */

static void get_on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_GET,
					.path = file_visit_of(v)->path });
}

static void get_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	if (failure) {
		visit_fail(v, failure);
		return;
	}
	if (v->call)
		reply_download(v->call, path_base(file_visit_of(v)->path), take_fd(&found->fd),
			found->size_bytes);
	session_found_free(found);
	visit_end(v);
}

void session_files_get(struct call *call)
{
	struct session *session = find(call);
	struct file_visit *f;

	if (!session)
		return;
	f = file_visit_new(call);
	f->visit.on_turn = get_on_turn;
	f->visit.on_found = get_on_found;
	visit_begin(&f->visit, call, session);
}

/* ---- removing one ---- */

static void remove_on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_REMOVE,
					.path = file_visit_of(v)->path });
}

static void remove_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	session_found_free(found);
	if (failure && failure->kind == ERR_NOT_FOUND && v->call) {
		reply_error(
			v->call, 404, "not_found", "there is no file '%s'", file_visit_of(v)->path);
	} else if (failure) {
		visit_fail(v, failure);
		return;
	} else if (v->call) {
		reply_nothing(v->call, 204);
	}
	visit_end(v);
}

void session_files_remove(struct call *call)
{
	struct session *session = find(call);
	struct file_visit *f;

	if (!session)
		return;
	f = file_visit_new(call);
	f->visit.on_turn = remove_on_turn;
	f->visit.on_found = remove_on_found;
	visit_begin(&f->visit, call, session);
}
