/* All files of a session as one tar. Packing and unpacking are done beside the loop, while the session waits:
 *
 *	GET  LIST ──▶ for each: GET ──▶ (thread) into the tar, a file without a name ──▶ that is the answer
 *	PUT  body, in a file without a name ──▶ (thread) into a directory of its own ──▶ from there into the session
 *
 * So an archive that is bad leaves nothing in the session. */
#include "api/handlers.h"
#include "api/session_files.h"
#include "api/tar.h"
#include "api/visit.h"
#include "base/own.h"
#include "base/path.h"

#include <string.h>
#include <sys/stat.h>
#include <uv.h>

enum {
	ENTRY_EXTRA = 2048, /* its head, that of a long name, and what fills its last block */
	PORTION = 64,       /* files that are put at a time: the loop has others to serve */
};

static struct session *find(struct call *call)
{
	struct session *session = visit_find(call);

	return session && visit_may_wait(call, session) ? session : NULL;
}

/* ---- packing ---- */

struct packing {
	struct visit visit;
	struct session_found *list;
	struct session_found *got; /* the file that is being packed */
	size_t at;
	int fd; /* of the tar */
	struct tar *tar;
	uv_work_t work;
	int failed;
	struct err e;
};

static struct packing *packing_of(struct visit *v)
{
	return container_of(v, struct packing, visit);
}

static void free_packing(struct visit *v)
{
	struct packing *p = packing_of(v);

	tar_free(p->tar);
	own_close(&p->fd);
	session_found_free(p->list);
	session_found_free(p->got);
	free(p);
}

static void reply_tar(struct packing *p)
{
	struct call *call = p->visit.call;
	struct stat status;

	if (!call)
		return;
	if (fstat(p->fd, &status)) {
		err_sys(&p->e, "look at the archive");
		reply_err(call, &p->e);
		return;
	}
	http_set_header(call->x, "Content-Disposition", "attachment; filename=\"workspace.tar\"");
	http_set_header(call->x, "X-Content-Type-Options", "nosniff");
	http_reply_file(
		call->x, 200, "application/x-tar", take_fd(&p->fd), (uint64_t)status.st_size);
}

static int pack_file(struct packing *p)
{
	const struct session_file *f = &p->list->files[p->at++];
	struct tar_file file = {
		.path = f->path,
		.is_executable = f->is_executable,
		.fd = p->got->fd,
		.size_bytes = p->got->size_bytes,
	};

	return tar_add_file(p->tar, &file, &p->e);
}

/* Behind all files: a program that goes on may have had us see a link in the place of a directory, and who unpacks that
 * would write what is in it wherever the link leads. Links in it come behind it, and tar_add_link() leaves them out. */
static int pack_links(struct packing *p)
{
	for (size_t i = 0; i < p->list->count; i++) {
		const struct session_file *f = &p->list->files[i];

		if (f->target && *f->target && tar_add_link(p->tar, f->path, f->target, &p->e))
			return -1;
	}
	return 0;
}

/* On a thread: the file that was got, and all up to the next one, or the end. */
static void pack(uv_work_t *work)
{
	struct packing *p = container_of(work, struct packing, work);

	if (p->got)
		p->failed = pack_file(p);
	for (; !p->failed && p->at < p->list->count; p->at++) {
		const struct session_file *f = &p->list->files[p->at];

		if (strcmp(f->kind, "file") == 0)
			return;
		/* Pipes and the like are in no archive. */
		if (strcmp(f->kind, "directory") == 0)
			p->failed = tar_add_dir(p->tar, f->path, &p->e);
	}
	if (!p->failed)
		p->failed = pack_links(p) || tar_end(p->tar, &p->e);
}

static void on_packed(uv_work_t *work, int status)
{
	struct packing *p = container_of(work, struct packing, work);
	struct visit *v = &p->visit;

	(void)status;
	session_found_free(take_ptr(&p->got));
	if (!v->call) {
		visit_end(v);
	} else if (p->failed) {
		visit_fail(v, &p->e);
	} else if (p->at < p->list->count) {
		session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_GET,
						.path = p->list->files[p->at].path });
	} else {
		reply_tar(p);
		visit_end(v);
	}
}

static void pack_on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_LIST });
}

static void pack_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	struct packing *p = packing_of(v);

	if (!v->call) {
		session_found_free(found);
		visit_end(v);
		return;
	}
	if (failure) {
		visit_fail(v, failure);
		return;
	}
	if (p->list)
		p->got = found;
	else
		p->list = found;
	uv_queue_work(v->session->service->loop, &p->work, pack, on_packed);
}

void session_archive_get(struct call *call)
{
	struct session *session = find(call);
	struct packing *p;

	if (!session)
		return;
	p = xalloc(sizeof(*p));
	p->fd = store_open_blob(call->service->store, &p->e);
	if (p->fd < 0) {
		reply_err(call, &p->e);
		free(p);
		return;
	}
	p->tar = tar_new(p->fd, session->config.limits.disk_bytes + ((uint64_t)1 << 20));
	p->visit.on_turn = pack_on_turn;
	p->visit.on_found = pack_on_found;
	p->visit.on_free = free_packing;
	visit_begin(&p->visit, call, session);
}

/* ---- unpacking ---- */

struct unpacking {
	struct visit visit;
	int fd; /* of the archive */
	struct mirror *to;
	struct tar_limits limits;
	struct tar_report report;
	struct mirror_file *files;
	size_t files_count;
	char **host_paths;
	struct hotcell_input *inputs;
	size_t inputs_count;
	size_t put_count; /* of them, so far */
	uv_work_t work;
	int failed;
	struct err e;
};

static struct unpacking *unpacking_of(struct visit *v)
{
	return container_of(v, struct unpacking, visit);
}

static void free_unpacking(struct visit *v)
{
	struct unpacking *u = unpacking_of(v);

	for (size_t i = 0; u->host_paths && i < u->files_count; i++)
		free(u->host_paths[i]);
	free(u->host_paths);
	free(u->inputs);
	mirror_files_free(u->files, u->files_count);
	tar_report_free(&u->report);
	mirror_drop(u->to, v->session->service->loop);
	own_close(&u->fd);
	free(u);
}

/* What a workspace gives as an archive, it takes: all that it may hold, and the heads of the entries. */
static uint64_t archive_max(const struct session *session)
{
	uint64_t disk_bytes = session->config.limits.disk_bytes;

	return disk_bytes + mirror_entries_max(disk_bytes) * ENTRY_EXTRA;
}

void session_archive_expect(struct call *call)
{
	const struct session *session = find(call);

	if (session)
		session_files_take_body(call, archive_max(session));
}

void session_archive_too_large(struct call *call, unsigned status, const char *why)
{
	if (status == 413)
		reply_error(call, 413, "too_large",
			"The archive is larger than the session's workspace may be.");
	else
		files_too_large(call, status, why);
}

static void unpack(uv_work_t *work)
{
	struct unpacking *u = container_of(work, struct unpacking, work);

	u->failed = tar_unpack(u->fd, &u->limits, u->to, &u->report, &u->e);
}

static json_t *skipped_json(const struct tar_report *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->skipped_count && i < TAR_SKIPPED_MAX; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:s}", "path",
				      reply_text(r->skipped[i].path, strlen(r->skipped[i].path)),
				      "reason", r->skipped[i].why));
	return list;
}

/* Answers, if somebody still wants to know. */
static void finish(struct unpacking *u, const struct err *failure)
{
	struct visit *v = &u->visit;
	const struct tar_report *r = &u->report;

	if (v->call && failure)
		reply_err(v->call, failure);
	else if (v->call)
		reply_json(v->call, 200,
			json_pack("{s:I, s:I, s:I, s:o, s:I}", "files", (json_int_t)r->files,
				"directories", (json_int_t)r->directories, "bytes",
				(json_int_t)r->bytes, "skipped", skipped_json(r), "skipped_count",
				(json_int_t)r->skipped_count));
	visit_end(v);
}

static void put_portion(struct unpacking *u)
{
	size_t left = u->inputs_count - u->put_count;
	struct hotcell_files what = {
		.kind = HOTCELL_FILES_PUT,
		.inputs = u->inputs + u->put_count,
		.inputs_count = left < PORTION ? left : PORTION,
	};

	u->put_count += what.inputs_count;
	session_files(&u->visit.turn, &what);
}

/* Directories that have something in them are made with that. */
static void put_all(struct unpacking *u)
{
	mirror_list(u->to, &u->files, &u->files_count);
	u->host_paths = xalloc((u->files_count + 1) * sizeof(char *));
	u->inputs = xalloc((u->files_count + 1) * sizeof(*u->inputs));
	for (size_t i = 0; i < u->files_count; i++) {
		const struct mirror_file *f = &u->files[i];

		if (f->is_directory && !mirror_is_empty(u->to, f->path))
			continue;
		u->host_paths[i] = path_join(mirror_path(u->to), f->path);
		u->inputs[u->inputs_count++] =
			(struct hotcell_input){ .path = f->path, .host_path = u->host_paths[i] };
	}
	put_portion(u);
}

static void on_unpacked(uv_work_t *work, int status)
{
	struct unpacking *u = container_of(work, struct unpacking, work);

	(void)status;
	if (u->failed || !u->visit.call)
		finish(u, &u->e);
	else
		put_all(u);
}

static void unpack_on_turn(struct visit *v)
{
	struct unpacking *u = unpacking_of(v);

	uv_queue_work(v->session->service->loop, &u->work, unpack, on_unpacked);
}

/* By another thread and back: whoever else has something to do on the loop goes first. */
static void rest(uv_work_t *work)
{
	(void)work;
}

static void on_rested(uv_work_t *work, int status)
{
	(void)status;
	put_portion(container_of(work, struct unpacking, work));
}

static void unpack_on_found(struct visit *v, struct session_found *found, const struct err *failure)
{
	struct unpacking *u = unpacking_of(v);

	session_found_free(found);
	if (failure || u->put_count == u->inputs_count)
		finish(u, failure);
	else
		uv_queue_work(v->session->service->loop, &u->work, rest, on_rested);
}

/* Where it is unpacked: removed with the other directories of sessions, should we not get to it. */
static int open_place(const struct session *session, struct mirror **ret, struct err *e)
{
	auto_free char *dir = path_join(session->service->config->state_dir, "sessions");
	char name[STORE_ID_SIZE];

	store_make_id(name);
	return mirror_open(dir, name, session->config.limits.disk_bytes, ret, e);
}

void session_archive_put(struct call *call)
{
	struct session *session = find(call);
	struct unpacking *u;

	if (!session)
		return;
	u = xalloc(sizeof(*u));
	if (open_place(session, &u->to, &u->e)) {
		reply_err(call, &u->e);
		free(u);
		return;
	}
	u->fd = take_fd(&call->body_fd);
	u->limits = (struct tar_limits){
		.entries_max = mirror_entries_max(session->config.limits.disk_bytes),
		.bytes_max = session->config.limits.disk_bytes,
		.file_max = call->service->config->file_max_bytes,
	};
	u->visit.on_turn = unpack_on_turn;
	u->visit.on_found = unpack_on_found;
	u->visit.on_free = free_unpacking;
	visit_begin(&u->visit, call, session);
}
