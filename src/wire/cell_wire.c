#include "wire/cell_wire.h"

#include "base/err.h"
#include "base/path.h"

#include <string.h>

static bool is_workspace_path(const char *path)
{
	struct err ignored;

	return path_check_relative(path, strlen(path), &ignored) == 0;
}

void put_put(struct frame_out *f, const struct msg_put *m)
{
	frame_begin(f, CELL_PUT);
	frame_put_string(f, m->path);
	frame_put_u8(f, m->kind);
	frame_put_u8(f, m->append);
	frame_put_u8(f, m->is_code);
	frame_put_u32(f, m->mode);
	frame_put_u64(f, m->memory_bytes);
	frame_put_bytes(f, m->data, m->data_len);
}

bool get_put(struct frame_in *f, struct msg_put *m)
{
	m->path = frame_get_string(f);
	m->kind = frame_get_u8(f);
	m->append = frame_get_u8(f);
	m->is_code = frame_get_u8(f);
	m->mode = frame_get_u32(f);
	m->memory_bytes = frame_get_u64(f);
	m->data = frame_get_bytes(f, &m->data_len);
	return frame_in_done(f) && m->kind >= FILE_REGULAR && m->kind <= FILE_SYMLINK &&
	       m->mode <= 0777 && is_workspace_path(m->path);
}

void put_exec(struct frame_out *f, const struct msg_exec *m)
{
	frame_begin(f, CELL_EXEC);
	frame_put_u64(f, m->wall_ms);
	frame_put_u64(f, m->cpu_ms);
	frame_put_u64(f, m->file_bytes);
	frame_put_u64(f, m->open_files);
	frame_put_u64(f, m->processes);
	frame_put_u64(f, m->output_bytes);
	frame_put_u64(f, m->memory_bytes);
	frame_put_u8(f, m->stdin_kind);
	frame_put_u8(f, m->list_when_done);
	frame_put_u8(f, m->trace);
	frame_put_u8(f, m->warm);
	frame_put_u32(f, m->argv_count);
	for (uint32_t i = 0; i < m->argv_count; i++)
		frame_put_string(f, exec_argv(m)[i]);
	frame_put_u32(f, m->env_count);
	for (uint32_t i = 0; i < m->env_count; i++)
		frame_put_string(f, exec_env(m)[i]);
}

bool get_exec(struct frame_in *f, struct msg_exec *m)
{
	uint32_t at = 0;

	m->wall_ms = frame_get_u64(f);
	m->cpu_ms = frame_get_u64(f);
	m->file_bytes = frame_get_u64(f);
	m->open_files = frame_get_u64(f);
	m->processes = frame_get_u64(f);
	m->output_bytes = frame_get_u64(f);
	m->memory_bytes = frame_get_u64(f);
	m->stdin_kind = frame_get_u8(f);
	m->list_when_done = frame_get_u8(f);
	m->trace = frame_get_u8(f);
	m->warm = frame_get_u8(f);
	m->argv_count = frame_get_u32(f);
	if (m->argv_count < 1 || m->argv_count > EXEC_WORDS_MAX - 2)
		return false;
	for (uint32_t i = 0; i < m->argv_count; i++)
		m->words[at++] = frame_get_string(f);
	m->words[at++] = NULL;
	m->env_count = frame_get_u32(f);
	if (m->env_count > EXEC_WORDS_MAX - 1 - at)
		return false;
	for (uint32_t i = 0; i < m->env_count; i++)
		m->words[at++] = frame_get_string(f);
	m->words[at] = NULL;
	return frame_in_done(f) && m->warm < EXEC_WARM_COUNT &&
	       (m->stdin_kind == STDIN_NULL || m->stdin_kind == STDIN_STREAM);
}

const char *const *exec_argv(const struct msg_exec *m)
{
	return m->words;
}

const char *const *exec_env(const struct msg_exec *m)
{
	return m->words + m->argv_count + 1;
}

void put_data(struct frame_out *f, enum cell_frame type, const struct msg_data *m)
{
	frame_begin(f, (uint8_t)type);
	frame_put_bytes(f, m->data, m->data_len);
}

bool get_data(struct frame_in *f, struct msg_data *m)
{
	m->data = frame_get_bytes(f, &m->data_len);
	return frame_in_done(f);
}

void put_bare(struct frame_out *f, enum cell_frame type)
{
	frame_begin(f, (uint8_t)type);
}

bool get_bare(struct frame_in *f)
{
	return frame_in_done(f);
}

void put_get(struct frame_out *f, const struct msg_get *m)
{
	frame_begin(f, CELL_GET);
	frame_put_string(f, m->path);
	frame_put_u64(f, m->max_bytes);
}

bool get_get(struct frame_in *f, struct msg_get *m)
{
	m->path = frame_get_string(f);
	m->max_bytes = frame_get_u64(f);
	return frame_in_done(f) && is_workspace_path(m->path);
}

void put_remove(struct frame_out *f, const struct msg_remove *m)
{
	frame_begin(f, CELL_REMOVE);
	frame_put_string(f, m->path);
	frame_put_u8(f, m->is_code);
}

bool get_remove(struct frame_in *f, struct msg_remove *m)
{
	m->path = frame_get_string(f);
	m->is_code = frame_get_u8(f);
	return frame_in_done(f) && is_workspace_path(m->path);
}

void put_output(struct frame_out *f, const struct msg_output *m)
{
	frame_begin(f, CELL_OUTPUT);
	frame_put_u8(f, m->stream);
	frame_put_bytes(f, m->data, m->data_len);
}

bool get_output(struct frame_in *f, struct msg_output *m)
{
	m->stream = frame_get_u8(f);
	m->data = frame_get_bytes(f, &m->data_len);
	return frame_in_done(f) && (m->stream == STREAM_STDOUT || m->stream == STREAM_STDERR);
}

size_t call_name_length(const char *name, size_t size)
{
	size_t len = 0;

	while (len < size && ((name[len] >= 'a' && name[len] <= 'z') || name[len] == '_' ||
				     (name[len] >= '0' && name[len] <= '9')))
		len++;
	return len;
}

static bool get_call_name(struct frame_in *f, char *ret)
{
	const char *name = frame_get_string(f);
	size_t len = call_name_length(name, VMM_CALL_NAME_MAX);

	if (len == VMM_CALL_NAME_MAX || name[len])
		return false;
	memcpy(ret, name, len + 1);
	return true;
}

void put_exited(struct frame_out *f, const struct msg_exited *m)
{
	frame_begin(f, CELL_EXITED);
	frame_put_u8(f, m->ended_by);
	frame_put_u32(f, m->wait_status);
	frame_put_u64(f, m->wall_us);
	frame_put_u64(f, m->cpu_us);
	frame_put_u64(f, m->max_rss_bytes);
	frame_put_u64(f, m->processes);
	frame_put_u8(f, m->disk_full);
	frame_put_u8(f, m->warm);
	frame_put_u8(f, m->nothing_new);
	frame_put_u8(f, m->waited);
	frame_put_u8(f, m->kept);
	frame_put_u64(f, m->vm.exits);
	frame_put_u64(f, m->vm.unknown_calls);
	frame_put_string(f, m->vm.missing_call);
	for (int i = 0; i < 2; i++)
		frame_put_bytes(f, m->out[i], m->out_len[i]);
	frame_put_u8(f, m->failed_put);
	frame_put_u32(f, m->failed_put_as);
	frame_put_string(f, m->text);
}

bool get_exited(struct frame_in *f, struct msg_exited *m)
{
	bool has_name;

	m->ended_by = frame_get_u8(f);
	m->wait_status = frame_get_u32(f);
	m->wall_us = frame_get_u64(f);
	m->cpu_us = frame_get_u64(f);
	m->max_rss_bytes = frame_get_u64(f);
	m->processes = frame_get_u64(f);
	m->disk_full = frame_get_u8(f);
	m->warm = frame_get_u8(f);
	m->nothing_new = frame_get_u8(f);
	m->waited = frame_get_u8(f);
	m->kept = frame_get_u8(f);
	m->vm.exits = frame_get_u64(f);
	m->vm.unknown_calls = frame_get_u64(f);
	has_name = get_call_name(f, m->vm.missing_call);
	for (int i = 0; i < 2; i++)
		m->out[i] = frame_get_bytes(f, &m->out_len[i]);
	m->failed_put = frame_get_u8(f);
	m->failed_put_as = frame_get_u32(f);
	m->text = frame_get_string(f);
	return frame_in_done(f) && has_name && m->ended_by < ENDED_BY_COUNT &&
	       m->failed_put <= ERR_GONE && m->out_len[0] <= EXITED_OUTPUT_MAX &&
	       m->out_len[1] <= EXITED_OUTPUT_MAX;
}

void put_file(struct frame_out *f, const struct msg_file *m)
{
	frame_begin(f, CELL_FILE);
	frame_put_string(f, m->path);
	frame_put_u8(f, m->kind);
	frame_put_u8(f, m->generated);
	frame_put_u32(f, m->mode);
	frame_put_u64(f, m->size_bytes);
	frame_put_string(f, m->target ? m->target : "");
}

bool get_file(struct frame_in *f, struct msg_file *m)
{
	m->path = frame_get_string(f);
	m->kind = frame_get_u8(f);
	m->generated = frame_get_u8(f);
	m->mode = frame_get_u32(f);
	m->size_bytes = frame_get_u64(f);
	m->target = frame_get_string(f);
	/* The path is joined to a directory of the host later: here is where it is made safe. */
	return frame_in_done(f) && m->kind >= FILE_REGULAR && m->kind <= FILE_OTHER &&
	       m->mode <= 07777 && is_workspace_path(m->path) &&
	       strlen(m->target) <= PATH_MAX_BYTES && (m->kind == FILE_SYMLINK || !*m->target);
}

void put_listed(struct frame_out *f, const struct msg_listed *m)
{
	frame_begin(f, CELL_LISTED);
	frame_put_u8(f, m->incomplete);
}

bool get_listed(struct frame_in *f, struct msg_listed *m)
{
	m->incomplete = frame_get_u8(f);
	return frame_in_done(f);
}

void put_got(struct frame_out *f, const struct msg_got *m)
{
	frame_begin(f, CELL_GOT);
	frame_put_u32(f, m->error);
}

bool get_got(struct frame_in *f, struct msg_got *m)
{
	m->error = frame_get_u32(f);
	return frame_in_done(f);
}

void put_served(struct frame_out *f, const struct msg_served *m)
{
	frame_begin(f, CELL_SERVED);
	frame_put_u8(f, m->kind);
	frame_put_u32(f, m->error);
	frame_put_string(f, m->text);
}

bool get_served(struct frame_in *f, struct msg_served *m)
{
	m->kind = frame_get_u8(f);
	m->error = frame_get_u32(f);
	m->text = frame_get_string(f);
	return frame_in_done(f) && m->kind <= ERR_GONE;
}
