#include "engine/request.h"

#include "base/own.h"
#include "base/path.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

size_t request_code_length(const struct hotcell_request *q)
{
	return q->code_len ? q->code_len : strlen(q->code);
}

static const char *input_path(const struct hotcell_input *input)
{
	if (input->path)
		return input->path;
	return input->host_path ? path_base(input->host_path) : "";
}

/* What a file's first line may tell. */
static size_t peek(const struct hotcell_input *input, char *ret, size_t size)
{
	auto_fclose FILE *file = NULL;

	if (!input->host_path) {
		size_t len = input->data_len < size ? input->data_len : size;

		if (len)
			memcpy(ret, input->data, len);
		return len;
	}
	file = fopen(input->host_path, "re");
	return file ? fread(ret, 1, size, file) : 0;
}

void request_peek(const struct hotcell_request *q, struct buf *ret)
{
	enum { TEXT_MAX = 256 << 10 };

	for (size_t i = 0; i < q->inputs_count; i++)
		if (q->entry ? strcmp(q->entry, input_path(&q->inputs[i])) == 0 :
			       q->inputs_count == 1) {
			ret->len += peek(&q->inputs[i], buf_reserve(ret, TEXT_MAX), TEXT_MAX);
			return;
		}
}

const struct language *request_language(
	struct hotcell *h, const struct hotcell_request *q, struct err *e)
{
	const struct language *found = NULL;

	if (q->language)
		return registry_find(h->registry, q->language, e);
	if (q->code)
		found = registry_guess(
			h->registry, q->entry ? q->entry : "", q->code, request_code_length(q));
	for (size_t i = 0; !found && !q->code && i < q->inputs_count; i++) {
		const char *path = input_path(&q->inputs[i]);
		char start[256];
		size_t len;

		if (q->entry && strcmp(q->entry, path) != 0)
			continue;
		len = peek(&q->inputs[i], start, sizeof(start));
		found = registry_guess(h->registry, path, start, len);
	}
	if (!found && q->entry)
		found = registry_guess(h->registry, q->entry, "", 0);
	if (!found)
		err_set(e, ERR_INPUT,
			"the language is not named, and neither an ending nor a #! line tells it");
	return found;
}

/* Why there is no vm for it, "" if there is. */
static void find_obstacle(
	const struct hotcell *h, const struct language *language, char *ret, size_t size)
{
	struct rlimit files;

	ret[0] = '\0';
	if (language->vm != LANGUAGE_VM_YES)
		snprintf(ret, size, "%s cannot be run in a vm yet", language->name);
	else if (h->start_warden) /* by somebody who sees more of the machine than we do */
		snprintf(ret, size, "%s", h->has_kvm ? "" : "there are no vms here");
	else if (access("/dev/kvm", R_OK | W_OK))
		snprintf(ret, size, "a vm needs /dev/kvm: %s", strerror(errno));
	else if (access(h->vmm_path, X_OK))
		snprintf(ret, size, "a vm needs hotcell-vmm: %s", strerror(errno));
	else if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < VMM_FDS_MAX)
		snprintf(ret, size, "a vm needs %d open files (ulimit -Hn)", VMM_FDS_MAX);
}

int request_isolation(struct hotcell *h, const struct hotcell_request *q,
	const struct language *language, enum isolation_kind *ret, char *ret_why, size_t why_size,
	struct err *e)
{
	ret_why[0] = '\0';
	switch (q->isolation) {
	case HOTCELL_ISOLATION_AUTO:
		if (!q->cell)
			find_obstacle(h, language, ret_why, why_size);
		*ret = q->cell    ? q->cell->link->kind :
		       ret_why[0] ? ISOLATION_CONTAINER :
				    ISOLATION_VM;
		break;
	case HOTCELL_ISOLATION_CONTAINER:
		*ret = ISOLATION_CONTAINER;
		break;
	case HOTCELL_ISOLATION_PROCESS:
		*ret = ISOLATION_PROCESS;
		break;
	case HOTCELL_ISOLATION_VM:
		*ret = ISOLATION_VM;
		if (language->vm != LANGUAGE_VM_YES)
			return err_set(e, ERR_UNAVAILABLE,
				"%s cannot be run in vm isolation yet; container isolation can run it",
				language->name);
		break;
	default:
		return err_set(e, ERR_INPUT, "unknown isolation %d", (int)q->isolation);
	}
	if (q->trace && *ret != ISOLATION_VM)
		return err_set(e, ERR_INPUT,
			"system calls can be traced in vm isolation only, and this is %s isolation",
			isolation_name(*ret));
	return 0;
}

static void raise_default(struct cell_wish *wish, enum limit which, uint64_t at_least)
{
	if (!(wish->explicit_limits & LIMIT_BIT(which)) && wish->limits.at[which] < at_least)
		wish->limits.at[which] = at_least;
}

static int wish_mounts(const struct hotcell_request *q, struct cell_wish *ret, struct err *e)
{
	if (q->mounts_count && ret->kind == ISOLATION_PROCESS)
		return err_set(e, ERR_INPUT,
			"process isolation has no mounts: its programs see the machine's files");
	if (q->mounts_count > MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d mounts", MOUNTS_MAX);
	for (size_t i = 0; i < q->mounts_count; i++) {
		const struct hotcell_mount *m = &q->mounts[i];

		if (!m->source)
			return err_set(e, ERR_INPUT, "a mount has no source");
		ret->mounts[ret->mounts_count++] = (struct mount_wish){ .source = m->source,
			.name = m->name ? m->name : path_base(m->source) };
	}
	return mounts_check(ret->mounts, ret->mounts_count, e);
}

/* Sets those that are not 0; *ret_set tells which. */
static int set_limits(
	const struct hotcell_limits *l, struct limits *ret, uint32_t *ret_set, struct err *e)
{
	const uint64_t asked[LIMIT_COUNT] = {
		[LIMIT_WALL_MS] = l->wall_ms,
		[LIMIT_CPU_MS] = l->cpu_ms,
		[LIMIT_MEMORY_BYTES] = l->memory_bytes,
		[LIMIT_PROCESSES] = l->processes,
		[LIMIT_DISK_BYTES] = l->disk_bytes,
		[LIMIT_FILE_BYTES] = l->file_bytes,
		[LIMIT_OPEN_FILES] = l->open_files,
		[LIMIT_CPUS_MILLI] = l->cpus_milli,
		[LIMIT_OUTPUT_BYTES] = l->output_bytes,
	};

	*ret_set = 0;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		if (!asked[i])
			continue;
		if (limit_check(i, asked[i], e))
			return -1;
		ret->at[i] = asked[i];
		*ret_set |= LIMIT_BIT(i);
	}
	return 0;
}

int request_wish(const struct hotcell_request *q, const struct tool *tool, struct cell_wish *ret,
	struct err *e)
{
	uint32_t usual = 0;

	*ret = (struct cell_wish){ .kind = ret->kind, .network = NETWORK_NONE };
	limits_set_defaults(&ret->limits);
	if ((q->limits_default && set_limits(q->limits_default, &ret->limits, &usual, e)) ||
		set_limits(&q->limits, &ret->limits, &ret->explicit_limits, e))
		return -1;
	raise_default(ret, LIMIT_MEMORY_BYTES, tool->language->memory_mb << 20);
	raise_default(ret, LIMIT_PROCESSES, tool->language->processes);
	/* A longer time on the clock is of no use with the default of processor time. */
	if (!(usual & LIMIT_BIT(LIMIT_CPU_MS)))
		raise_default(ret, LIMIT_CPU_MS, ret->limits.at[LIMIT_WALL_MS]);
	ret->explicit_network = q->network == HOTCELL_NETWORK_NONE;
	if (q->network == HOTCELL_NETWORK_HOST)
		ret->network = NETWORK_HOST;
	for (char **at = tool->needs; at && *at; at++) {
		if (ret->needs_count == MAKE_BINDS_MAX)
			return err_set(e, ERR_LIMIT, "%s needs more than %d directories",
				tool->language->name, MAKE_BINDS_MAX);
		ret->needs[ret->needs_count++] = *at;
	}
	return wish_mounts(q, ret, e);
}

static int stage_input(const struct hotcell_input *input, struct staging *ret, struct err *e)
{
	const char *path = input_path(input);

	if (input->host_path)
		return staging_add_host(ret, input->host_path, path, e);
	if (input->target && !input->data)
		return staging_add_link(ret, path, input->target, e);
	return staging_add_data(ret, path, input->data, input->data_len, e);
}

int request_stage_inputs(
	const struct hotcell_input *inputs, size_t count, struct staging *ret, struct err *e)
{
	for (size_t i = 0; i < count; i++) {
		if (stage_input(&inputs[i], ret, e))
			return -1;
	}
	return 0;
}

/* A kept interpreter gets the text, and leaves no file behind that nobody has asked for. */
bool request_goes_as_text(const struct hotcell_request *q, const struct language *language)
{
	enum { ROOM = 4096 }; /* for all else that a request says */

	/* Where there is no text, a driver reads the file. */
	return q->keep && q->code && language->keeps_state == LANGUAGE_KEEPS_YES && !q->args &&
	       !q->env && request_code_length(q) && request_code_length(q) <= FRAME_DATA_MAX - ROOM;
}

int request_stage(const struct hotcell_request *q, const struct tool *tool, struct staging *ret,
	char **ret_entry, struct err *e)
{
	const char *entry = q->entry;

	if (request_stage_inputs(q->inputs, q->inputs_count, ret, e))
		return -1;
	if (q->code) {
		entry = entry ? entry : tool->language->file;
		if (staging_has(ret, entry))
			return err_set(e, ERR_INPUT,
				"File path '%s' is reserved for the execution entrypoint.", entry);
		if (!request_goes_as_text(q, tool->language) &&
			staging_add_data(ret, entry, q->code, request_code_length(q), e))
			return -1;
	} else if (!entry) {
		if (ret->count != 1 || ret->items[0].kind != FILE_REGULAR)
			return err_set(e, ERR_INPUT,
				"no code was given, and which file to run is not said (entry)");
		entry = ret->items[0].path;
	} else if (!staging_has(ret, entry)) {
		return err_set(
			e, ERR_NOT_FOUND, "the entry file '%s' is not among the files", entry);
	}
	/* Interpreters would take it for an option. */
	*ret_entry = xasprintf("%s%s", entry[0] == '-' ? "./" : "", entry);
	return 0;
}

bool request_compiles(const struct hotcell_work *work)
{
	return !work->raw_argv && !work->compiled && tool_compiles(&work->tool);
}

/* What is asked of the program is not asked of its compiler: it has what its language says, else
 * the defaults, and the program's where those are more. */
void request_compile_limits(const struct hotcell_work *work, struct limits *ret)
{
	const struct compile_limits *c = &work->tool.language->compile_limits;
	struct limits least;

	limits_set_defaults(&least);
	least.at[LIMIT_DISK_BYTES] = 0; /* the cell's disk is one for both */
	if (c->timeout_s)
		least.at[LIMIT_WALL_MS] = least.at[LIMIT_CPU_MS] = c->timeout_s * 1000;
	if (c->memory_mb)
		least.at[LIMIT_MEMORY_BYTES] = c->memory_mb << 20;
	if (c->processes)
		least.at[LIMIT_PROCESSES] = c->processes;
	*ret = work->limits;
	for (int i = 0; i < LIMIT_COUNT; i++)
		if (least.at[i] > ret->at[i])
			ret->at[i] = least.at[i];
}

bool request_has_stdin(const struct hotcell_request *q)
{
	return q->have_stdin_fd || q->stdin_data;
}

int request_check_setting(const char *setting, struct err *e)
{
	size_t len = strcspn(setting, "=");

	if (len == 0 || setting[len] != '=')
		return err_set(e, ERR_INPUT, "environment '%s': want NAME=value", setting);
	return 0;
}
