#include "engine/exec.h"

#include "base/clock.h"
#include "base/own.h"
#include "engine/request.h"

#include <string.h>

/* Later settings of the same name replace earlier ones. */
static int add_env(struct msg_exec *m, uint32_t first, const char *setting, struct err *e)
{
	size_t len = strcspn(setting, "=");

	if (request_check_setting(setting, e))
		return -1;
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
	m->stdin_kind = !compile && request_has_stdin(&work->request) ? STDIN_STREAM : STDIN_NULL;
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

static void fill_warm(const struct hotcell_work *work, struct msg_exec *m)
{
	uint64_t gone_ms = work->quiet_us / 1000;

	m->wall_ms = m->wall_ms > gone_ms ? m->wall_ms - gone_ms : 1;
	m->warm = work->request.keep ? EXEC_KEEP_RUN : EXEC_WARM_RUN;
	m->argv_count = 1;
	m->words[0] = work->tool.program;
	m->words[1] = m->words[2] = NULL;
}

static int send_exec(struct hotcell_work *work, const struct msg_exec *m, struct err *e)
{
	work->asked_us = clock_now_us();
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

int exec_driver(struct hotcell_work *work, struct err *e)
{
	return exec_command(work, false, EXEC_WARM_START, e);
}

int exec_step(struct hotcell_work *work, bool compile, struct err *e)
{
	if (work->profile && !work->raw_argv)
		return exec_warm(work, e);
	if (work->raw_argv && work->snapshot_fd >= 0)
		return exec_command(work, compile, EXEC_SNAPSHOT, e);
	if (work->by_driver && work->request.keep)
		return exec_command(work, compile, EXEC_DRIVER_RUN, e);
	return exec_command(work, compile, work->by_driver ? EXEC_WARM_RUN : EXEC_COLD, e);
}
