/* Files of this machine for a run on another. Small ones go with the request; larger ones are stored by the
 * server first, and removed behind the run. */
#include "cli/remote.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/utf8.h"
#include "workspace/staging.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { INLINE_MAX = 256 << 10, INLINE_SUM_MAX = 4 << 20 };

struct inputs {
	struct client *client;
	struct remote_uploads *uploads;
	json_t *list;
	uint64_t inline_bytes;
};

int remote_inputs_open(const char *path, int *ret_fd, uint64_t *ret_size, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "open '%s'", path);
	if (!S_ISREG(status.st_mode))
		return err_set(e, ERR_INPUT, "'%s' is no regular file", path);
	*ret_fd = take_fd(&fd);
	*ret_size = (uint64_t)status.st_size;
	return 0;
}

static json_t *as_base64(int fd, const char *path, uint64_t size, struct err *e)
{
	auto_free char *data = xalloc(size + 1);
	auto_buf struct buf text = { 0 };

	if (size && fd_read_all(fd, data, size)) {
		err_sys(e, "read '%s'", path);
		return NULL;
	}
	base64_encode(data, size, &text);
	buf_add(&text, "", 0);
	return json_stringn_nocheck(text.data, text.len);
}

static json_t *as_stored(struct inputs *in, int fd, const char *path, uint64_t size, struct err *e)
{
	struct client_request q = { .method = "POST",
		.path = "/v1/files",
		.has_file = true,
		.body_fd = fd,
		.body_size = size,
		.part_name = path_base(path) };
	struct client_reply reply;
	json_t *root;
	const char *id;

	if (client_ask(in->client, &q, &reply, e)) {
		err_wrap(e, "store '%s'", path);
		return NULL;
	}
	root = json_loadb(reply.body.data ? reply.body.data : "", reply.body.len, 0, NULL);
	client_reply_free(&reply);
	id = json_string_value(json_object_get(root, "file_id"));
	if (!id || !client_is_id(id)) {
		json_decref(root);
		err_set(e, ERR_PROTOCOL, "store '%s': the server gives no id", path);
		return NULL;
	}
	in->uploads->ids =
		xgrow(in->uploads->ids, (in->uploads->count + 1) * sizeof(*in->uploads->ids));
	strcpy(in->uploads->ids[in->uploads->count++], id);
	json_decref(root);
	return json_string(in->uploads->ids[in->uploads->count - 1]);
}

static int add_file(struct inputs *in, const struct stage_item *item, struct err *e)
{
	auto_close int fd = -1;
	uint64_t size = 0;
	bool is_small;
	json_t *content;

	if (!utf8_valid(item->path, strlen(item->path)))
		return err_set(e, ERR_INPUT,
			"a file's name is not UTF-8, and only that can be sent to a server");
	if (remote_inputs_open(item->host_path, &fd, &size, e))
		return -1;
	is_small = size <= INLINE_MAX && in->inline_bytes + size <= INLINE_SUM_MAX;
	content = is_small ? as_base64(fd, item->host_path, size, e) :
			     as_stored(in, fd, item->host_path, size, e);
	if (!content)
		return -1;
	in->inline_bytes += is_small ? size : 0;
	json_array_append_new(
		in->list, json_pack("{s:o, s:o}", "path", json_string_nocheck(item->path),
				  is_small ? "content_base64" : "file_id", content));
	return 0;
}

static int add_item(struct inputs *in, const struct stage_item *item, struct err *e)
{
	/* Directories are made by the files in them. */
	if (item->kind == FILE_DIRECTORY)
		return 0;
	if (item->kind == FILE_REGULAR && item->host_path)
		return add_file(in, item, e);
	return err_set(e, ERR_INPUT,
		"'%s' is a symbolic link, and only regular files can be sent to a server",
		item->path);
}

json_t *remote_inputs_json(struct client *c, const struct hotcell_input *inputs, size_t count,
	struct remote_uploads *uploads, struct err *e)
{
	struct inputs in = { .client = c, .uploads = uploads, .list = json_array() };
	struct staging staging = { 0 };
	int failed = 0;

	for (size_t i = 0; i < count && !failed; i++)
		failed = staging_add_host(&staging, inputs[i].host_path,
			inputs[i].path ? inputs[i].path : path_base(inputs[i].host_path), e);
	for (size_t i = 0; i < staging.count && !failed; i++)
		failed = add_item(&in, &staging.items[i], e);
	staging_free(&staging);
	if (!failed)
		return in.list;
	json_decref(in.list);
	return NULL;
}

/* Best effort: the server removes them itself, later. */
void remote_uploads_remove(struct client *c, struct remote_uploads *uploads)
{
	struct client *again = uploads->count ? client_again(c) : NULL;

	for (size_t i = 0; i < uploads->count; i++) {
		auto_free char *path = xasprintf("/v1/files/%s", uploads->ids[i]);
		struct client_request q = { .method = "DELETE", .path = path, .patience_s = 5 };
		struct client_reply reply;
		struct err e;

		if (client_ask(again, &q, &reply, &e))
			break;
		client_reply_free(&reply);
	}
	client_free(again);
	free(uploads->ids);
	*uploads = (struct remote_uploads){ 0 };
}
