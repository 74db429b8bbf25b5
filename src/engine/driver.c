/* A driver that waits in a cell: an interpreter that is started and warmed ahead, and serves one run, or one after
 * the other if what they leave is kept (wire/vmm_warm.h). Its keeper hands it the requests. In a vm there are
 * machines for that, but for languages that have no snapshot. */
#include "engine/exec.h"
#include "engine/request.h"
#include "engine/snapshot.h"

#include "base/own.h"

/* What a program is bound to from its start, and no later order can change. */
static const enum limit fixed[] = { LIMIT_OPEN_FILES, LIMIT_PROCESSES, LIMIT_FILE_BYTES };

bool driver_is_possible(const struct hotcell *h, const struct tool *tool)
{
	return h->drivers_dir && snapshot_command(tool)->count;
}

char **driver_command(const struct tool *tool, const struct profile *profile)
{
	unsigned count = profile ? profile->modules.count : 0;
	auto_free const char **modules = xalloc((count + 1) * sizeof(*modules));
	struct expansion x = {
		.program = tool->program,
		.drivers = CELL_DRIVERS_DIR,
		.args = modules,
	};

	for (unsigned i = 0; i < count; i++)
		modules[i] = profile->modules.at[i];
	return command_expand(snapshot_command(tool), &x);
}

int driver_open(struct hotcell_cell *cell, const struct tool *tool, const struct profile *profile,
	struct err *e)
{
	struct hotcell_work work = {
		.engine = cell->engine,
		.tool = *tool,
		.cell = cell,
		.limits = cell->limits,
		.raw_argv = driver_command(tool, profile),
	};
	int failed = exec_driver(&work, e);

	strings_free(work.raw_argv);
	if (failed)
		return -1;
	if (frame_send(cell->control_fd, &cell->engine->out, -1))
		return err_sys(e, "start a driver");
	cell->driver = tool->candidate;
	cell->driver_profile = profile;
	cell->driver_limits = cell->limits;
	cell->driver_waits = false;
	return 0;
}

bool driver_is_ready(struct hotcell_cell *cell, const struct tool *tool)
{
	cell_notice(cell);
	return cell->driver_waits && cell->driver == tool->candidate;
}

bool driver_is_warming(const struct hotcell_cell *cell)
{
	return cell->driver && !cell->driver_waits;
}

bool driver_suits(const struct hotcell_cell *cell, const struct limits *limits)
{
	for (size_t i = 0; i < COUNT(fixed); i++)
		if (cell->driver_limits.at[fixed[i]] != limits->at[fixed[i]])
			return false;
	/* A guest is told of its memory when it starts. */
	return cell->link->kind != ISOLATION_VM ||
	       cell->driver_limits.at[LIMIT_MEMORY_BYTES] == limits->at[LIMIT_MEMORY_BYTES];
}

int driver_check_keep(const struct hotcell_request *q, const struct tool *tool,
	const struct cell_wish *wish, struct err *e)
{
	const struct hotcell_cell *cell = q->cell;
	const struct language *l = tool->language;

	if (l->keeps_state == LANGUAGE_KEEPS_NO || !snapshot_command(tool)->count)
		return err_set(
			e, ERR_UNAVAILABLE, "%s cannot keep its state between runs", l->name);
	if (wish->kind == ISOLATION_PROCESS)
		return err_set(e, ERR_UNAVAILABLE,
			"state is kept in vm and container isolation, and this is process isolation");
	if (q->trace)
		return err_set(e, ERR_INPUT, "a run that keeps its state cannot be traced");
	if (cell->session && cell->session != tool->candidate)
		return err_set(
			e, ERR_INPUT, "the cell keeps the state of another language already");
	if (cell->session && !driver_suits(cell, &wish->limits))
		return err_set(e, ERR_INPUT,
			"the interpreter whose state is kept was started with other limits of open "
			"files, processes, file size or memory");
	return 0;
}
