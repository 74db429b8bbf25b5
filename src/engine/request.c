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
		snprintf(ret, size, "%s", h->has_kvm ? "" : "a vm needs /dev/kvm");
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

int request_stage_inputs(
	const struct hotcell_input *inputs, size_t count, struct staging *ret, struct err *e)
{
	for (size_t i = 0; i < count; i++) {
		const struct hotcell_input *input = &inputs[i];
		const char *path = input_path(input);
		int failed = input->host_path ?
				     staging_add_host(ret, input->host_path, path, e) :
				     staging_add_data(ret, path, input->data, input->data_len, e);

		if (failed)
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

/* ---- the command and its environment ---- */

static size_t name_length(const char *setting)
{
	return strcspn(setting, "=");
}

/* Later settings of the same name replace earlier ones. */
static int add_env(struct msg_exec *m, uint32_t first, const char *setting, struct err *e)
{
	size_t len = name_length(setting);

	if (len == 0 || setting[len] != '=')
		return err_set(e, ERR_INPUT, "environment '%s': want NAME=value", setting);
	for (uint32_t i = 0; i < m->env_count; i++)
		if (strncmp(m->words[first + i], setting, len + 1) == 0) {
			m->words[first + i] = setting;
			return 0;
		}
	if (first + m->env_count >= EXEC_WORDS_MAX - 1)
		return err_set(e, ERR_LIMIT, "more than %d arguments and settings", EXEC_WORDS_MAX);
	m->words[first + m->env_count++] = setting;
	return 0;
}

struct places {
	char *tmp;
	char *out;
	char *home;
	char *drivers;
	char **env; /* of the language, expanded */
};

static void find_places(const struct hotcell_work *work, struct places *p)
{
	const char *workspace = work->cell->workspace;
	size_t len = strlen(workspace) - strlen("/workspace");

	p->tmp = xasprintf("%.*s/tmp", (int)len, workspace);
	p->out = xasprintf(
		"%s/" STAGE_BUILD_DIR "/program", work->compiles_apart ? workspace : p->tmp);
	p->home = xasprintf("HOME=%s", p->tmp);
	p->drivers =
		xstrdup(work->cell->link->kind == ISOLATION_PROCESS && work->engine->drivers_dir ?
				work->engine->drivers_dir :
				CELL_DRIVERS_DIR);
}

static void free_places(struct places *p)
{
	free(p->tmp);
	free(p->out);
	free(p->home);
	free(p->drivers);
	strings_free(p->env);
}

static int fill_env(
	const struct hotcell_work *work, struct msg_exec *m, const struct places *p, struct err *e)
{
	const char *const base[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
		"USER=cell", "LOGNAME=cell", p->home };
	uint32_t first = m->argv_count + 1;

	for (size_t i = 0; i < COUNT(base); i++)
		if (add_env(m, first, base[i], e))
			return -1;
	for (char **at = p->env; *at; at++)
		if (add_env(m, first, *at, e))
			return -1;
	for (const char *const *at = work->request.env; at && *at; at++)
		if (add_env(m, first, *at, e))
			return -1;
	m->words[first + m->env_count] = NULL;
	return 0;
}

static const struct strings *choose_command(const struct hotcell_work *work, bool compile)
{
	const struct candidate *c = work->tool.candidate;
	const struct language *l = work->tool.language;

	if (compile)
		return tool_command(&c->compile, &l->compile);
	if (work->request.last_line)
		return tool_command(&c->last_line, &l->last_line);
	return tool_command(&c->run, &l->run);
}

static bool has_stdin(const struct hotcell_request *q)
{
	return q->have_stdin_fd || q->stdin_data;
}

static void fill_limits(const struct hotcell_work *work, bool compile, struct msg_exec *m)
{
	struct limits l = work->limits;

	if (compile)
		request_compile_limits(work, &l);
	m->wall_ms = l.at[LIMIT_WALL_MS];
	m->cpu_ms = l.at[LIMIT_CPU_MS];
	m->file_bytes = l.at[LIMIT_FILE_BYTES];
	m->open_files = l.at[LIMIT_OPEN_FILES];
	m->processes = l.at[LIMIT_PROCESSES];
	m->output_bytes = l.at[LIMIT_OUTPUT_BYTES];
	m->memory_bytes = l.at[LIMIT_MEMORY_BYTES];
	m->trace = !compile && work->request.trace;
	m->list_when_done = !compile && !work->raw_argv;
	m->stdin_kind = !compile && has_stdin(&work->request) ? STDIN_STREAM : STDIN_NULL;
}

static int fill_argv(struct msg_exec *m, char **argv, struct err *e)
{
	while (argv[m->argv_count]) {
		if (m->argv_count >= EXEC_WORDS_MAX / 2)
			return err_set(e, ERR_LIMIT, "more than %d arguments", EXEC_WORDS_MAX / 2);
		m->words[m->argv_count] = argv[m->argv_count];
		m->argv_count++;
	}
	m->words[m->argv_count] = NULL;
	return m->argv_count ? 0 : err_set(e, ERR_INPUT, "the language has no such command");
}

static void expand(
	const struct hotcell_work *work, bool compile, struct places *p, char ***ret_argv)
{
	struct expansion x = {
		.program = work->tool.program,
		.file = work->entry,
		.out = p->out,
		.drivers = p->drivers,
		.workspace = work->cell->workspace,
		.tmp = p->tmp,
		.args = compile ? NULL : work->request.args,
		.memory_mb = work->limits.at[LIMIT_MEMORY_BYTES] >> 20,
	};

	p->env = command_expand(&work->tool.language->env, &x);
	if (!work->raw_argv)
		*ret_argv = command_expand(choose_command(work, compile), &x);
}

/* ---- for a driver that waits: see drivers/python/warm.py ---- */

static void add_field(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static void add_list(struct buf *b, const char *const *list)
{
	char count[16];
	unsigned n = 0;

	while (list && list[n])
		n++;
	snprintf(count, sizeof(count), "%u", n);
	add_field(b, count);
	for (unsigned i = 0; list && i < n; i++)
		add_field(b, list[i]);
}

/* Whether the program is the only file in its workspace. */
static bool is_alone(const struct hotcell_work *work)
{
	return work->staging.count == 1 && !work->cell->has_leftovers;
}

/* Whether so little may be printed that it takes somebody who counts along. */
static bool is_told_early(const struct limits *limits)
{
	uint64_t most = limits->at[LIMIT_OUTPUT_BYTES];

	return most && most <= EXITED_OUTPUT_MAX;
}

/* drivers/python/warm.py says what they mean. */
static void add_flags(struct buf *b, const struct hotcell_work *work)
{
	const struct hotcell_request *q = &work->request;
	const struct {
		bool is_so;
		char flag;
	} rows[] = {
		{ q->last_line, 'l' },
		{ is_alone(work), 'a' },
		{ q->keep, 'k' },
		{ work->by_driver && !has_stdin(q), 'n' },
		{ work->by_driver && q->keep && has_stdin(q), 'i' },
		{ q->keep && has_stdin(q), 's' },
	};
	char flags[COUNT(rows) + 1];
	size_t len = 0;

	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].is_so)
			flags[len++] = rows[i].flag;
	flags[len] = '\0';
	add_field(b, flags);
}

/* A kept interpreter is as it is, whatever lies in its workspace. But the keeper must know of it: the first time
 * it goes out. */
static bool may_be_quiet(const struct hotcell_work *work)
{
	const struct hotcell_request *q = &work->request;
	size_t own = request_goes_as_text(q, work->tool.language) ? 0 : 1;
	bool is_apart = q->keep ? work->continues && work->staging.count == own : is_alone(work);

	return !work->by_driver && is_apart && !has_stdin(q) && !is_told_early(&work->limits);
}

int request_build_warm(struct hotcell_work *work, struct err *e)
{
	const struct hotcell_request *q = &work->request;
	bool has_text = q->code && work->tool.language->keeps_state != LANGUAGE_KEEPS_ONLY;
	auto_free char *path = path_join(work->cell->workspace, work->entry);
	struct buf *b = &work->warm_request;

	add_flags(b, work);
	add_field(b, path);
	add_list(b, q->args);
	for (const char *const *at = q->env; at && *at; at++)
		if (name_length(*at) == 0 || (*at)[name_length(*at)] != '=')
			return err_set(e, ERR_INPUT, "environment '%s': want NAME=value", *at);
	add_list(b, q->env);
	/* As much as an EXEC could say. */
	if (b->len > FRAME_MAX)
		return err_set(e, ERR_LIMIT, "arguments and environment together are over %d bytes",
			FRAME_MAX);
	/* The text itself, where it fits: the driver need not read the file then. */
	if (has_text && b->len + request_code_length(q) <= FRAME_DATA_MAX) {
		buf_add(b, q->code, request_code_length(q));
		work->may_be_quiet = may_be_quiet(work);
	}
	return 0;
}

static void fill_warm(const struct hotcell_work *work, struct msg_exec *m)
{
	uint64_t gone_ms = work->quiet_us / 1000;

	m->wall_ms = m->wall_ms > gone_ms ? m->wall_ms - gone_ms : 1;
	m->warm = work->request.keep ? EXEC_KEEP_RUN : EXEC_WARM_RUN;
	m->argv_count = 1;
	m->words[0] = work->tool.program;
	m->words[1] = m->words[2] = NULL;
}

void request_rehearsal(const struct language *language, struct buf *ret)
{
	auto_free char *path = NULL;

	if (!language->rehearsal)
		return;
	add_field(ret, "a");
	path = xasprintf("/workspace/%s", language->file);
	add_field(ret, path);
	add_list(ret, NULL);
	add_list(ret, NULL);
	buf_add_str(ret, language->rehearsal);
}

static int send_exec(struct hotcell_work *work, const struct msg_exec *m, struct err *e)
{
	put_exec(&work->engine->out, m);
	if (work->engine->out.overflow)
		return err_set(e, ERR_LIMIT, "arguments and environment together are over %d bytes",
			FRAME_MAX);
	return 0;
}

static int exec_warm(struct hotcell_work *work, struct err *e)
{
	struct msg_exec *m = &work->engine->exec;

	*m = (struct msg_exec){ 0 };
	fill_limits(work, false, m);
	fill_warm(work, m);
	return send_exec(work, m, e);
}

int request_ask_driver(struct hotcell_work *work, struct err *e)
{
	put_data(&work->engine->out, CELL_REQUEST,
		&(struct msg_data){
			(const uint8_t *)work->warm_request.data, work->warm_request.len });
	if (work->engine->out.overflow)
		return err_set(e, ERR_LIMIT, "arguments and environment together are over %d bytes",
			FRAME_MAX);
	return 0;
}

static int exec_command(struct hotcell_work *work, bool compile, enum exec_warm warm, struct err *e)
{
	struct msg_exec *m = &work->engine->exec;
	struct places places;
	char **argv = work->raw_argv;
	int failed;

	*m = (struct msg_exec){ 0 };
	find_places(work, &places);
	expand(work, compile, &places, &argv);
	if (warm == EXEC_DRIVER_RUN) {
		strings_free(argv);
		argv = driver_command(&work->tool, work->cell->driver_profile);
	}
	fill_limits(work, compile, m);
	failed = fill_argv(m, argv, e) || fill_env(work, m, &places, e) ? -1 : 0;
	m->warm = (uint8_t)warm;
	if (warm == EXEC_SNAPSHOT)
		m->file_bytes = 0;
	/* Its time does not count yet. What it uses for a program, the warden counts. */
	if (warm == EXEC_WARM_START)
		m->cpu_ms = 0;
	if (!failed)
		failed = send_exec(work, m, e);
	free_places(&places);
	if (argv != work->raw_argv)
		strings_free(argv);
	return failed;
}

int request_start_driver(struct hotcell_work *work, struct err *e)
{
	return exec_command(work, false, EXEC_WARM_START, e);
}

int request_exec(struct hotcell_work *work, bool compile, struct err *e)
{
	if (work->profile && !work->raw_argv)
		return exec_warm(work, e);
	if (work->raw_argv && work->snapshot_fd >= 0)
		return exec_command(work, compile, EXEC_SNAPSHOT, e);
	if (work->by_driver && work->request.keep)
		return exec_command(work, compile, EXEC_DRIVER_RUN, e);
	return exec_command(work, compile, work->by_driver ? EXEC_WARM_RUN : EXEC_COLD, e);
}
