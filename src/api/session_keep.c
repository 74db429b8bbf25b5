/* DELETE of a session whose generated files are to stay: one after another they go to the file store; if one of them
 * cannot, those before it are removed from there again, and the session lives on. */
#include "api/session_files.h"

#include "api/visit.h"
#include "base/own.h"

#include <string.h>

struct keeping {
	struct visit visit;
	struct session_found *found;
	size_t at;    /* the file whose turn it is */
	json_t *kept; /* [{path, file_id, size_bytes}…] */
	struct store_file file;
};

static struct keeping *keeping_of(struct visit *v)
{
	return container_of(v, struct keeping, visit);
}

static void free_keeping(struct visit *v)
{
	struct keeping *k = keeping_of(v);

	session_found_free(k->found);
	json_decref(k->kept);
	free(k);
}

static void give_up(struct keeping *k, const struct err *e)
{
	struct store *store = k->visit.session->service->store;
	json_t *kept;
	size_t i;

	json_array_foreach(k->kept, i, kept)
	{
		store_remove_file(
			store, json_string_value(json_object_get(kept, "file_id")), NULL, NULL);
	}
	visit_fail(&k->visit, e);
}

static void on_closed(void *context, const struct err *e)
{
	struct keeping *k = context;

	if (e) {
		give_up(k, e);
		return;
	}
	if (k->visit.call)
		reply_json(k->visit.call, 200, json_pack("{s:O}", "files", k->kept));
	visit_end(&k->visit);
}

static void next_file(struct keeping *k)
{
	struct session *session = k->visit.session;

	while (k->at < k->found->count) {
		const struct session_file *f = &k->found->files[k->at];

		if (f->generated && strcmp(f->kind, "file") == 0) {
			session_files(
				&k->visit.turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_GET,
							.path = f->path });
			return;
		}
		k->at++;
	}
	session_delete(session, on_closed, k);
}

static void note_kept(struct keeping *k)
{
	const struct session_file *f = &k->found->files[k->at++];

	json_array_append_new(k->kept,
		json_pack("{s:o, s:s, s:I}", "path", reply_text(f->path, strlen(f->path)),
			"file_id", k->file.id, "size_bytes", (json_int_t)k->file.size_bytes));
}

static void on_stored(void *context, const struct err *e)
{
	struct keeping *k = context;
	struct session *session = k->visit.session;
	struct err gone = { 0 };

	if (!e)
		note_kept(k);
	if (session->has_ended) {
		err_set(&gone, ERR_NOT_FOUND, "Session '%s' not found: %s", session->id,
			session->why);
		give_up(k, &gone);
	} else if (e) {
		give_up(k, e);
	} else {
		next_file(k);
	}
}

static bool has_room(const struct session *session, uint64_t more)
{
	uint64_t most = session->caller.rights.max_stored_bytes;

	return !most ||
	       store_owner_bytes(session->service->store, session->caller.owner) + more <= most;
}

static void store_one(struct keeping *k, struct session_found *got)
{
	struct session *session = k->visit.session;
	uint64_t ttl_s = session->service->config->file_ttl_s;
	json_t *name = reply_text(k->found->files[k->at].path, strlen(k->found->files[k->at].path));
	double now_s = service_now_s();
	struct err e = { 0 };

	if (has_room(session, got->size_bytes)) {
		k->file = (struct store_file){
			.owner = session->caller.owner,
			.name = (char *)(uintptr_t)json_string_value(name),
			.size_bytes = got->size_bytes,
			.created_s = now_s,
			.expires_s = ttl_s ? now_s + (double)ttl_s : 0,
		};
		store_make_id(k->file.id);
		store_add_file(session->service->store, &k->file, take_fd(&got->fd), on_stored, k);
	} else {
		err_set(&e, ERR_LIMIT, "This key may store %llu bytes at most.",
			(unsigned long long)session->caller.rights.max_stored_bytes);
		give_up(k, &e);
	}
	session_found_free(got);
	json_decref(name);
}

static void on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_LIST });
}

static void on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	struct keeping *k = keeping_of(v);

	if (failure) {
		give_up(k, failure);
	} else if (!k->found) {
		k->found = found;
		next_file(k);
	} else {
		store_one(k, found);
	}
}

void session_keep_begin(struct call *call, struct session *session)
{
	struct keeping *k;

	if (!visit_may_wait(call, session))
		return;
	k = xalloc(sizeof(*k));
	k->kept = json_array();
	k->visit.is_first = true;
	k->visit.on_turn = on_turn;
	k->visit.on_found = on_found;
	k->visit.on_free = free_keeping;
	visit_begin(&k->visit, call, session);
}
