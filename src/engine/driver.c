/* A driver that waits in a cell which is no vm: an interpreter that is started and warmed ahead, and serves one
 * run (wire/vmm_warm.h). Its keeper hands it the request. */
#include "engine/request.h"
#include "engine/snapshot.h"

#include "base/own.h"

/* What a program is bound to from its start, and no later order can change. */
static const enum limit fixed[] = { LIMIT_OPEN_FILES, LIMIT_PROCESSES, LIMIT_FILE_BYTES };

char **driver_command(const struct tool *tool, const struct profile *profile)
{
	auto_free const char **modules = xalloc((profile->modules.count + 1) * sizeof(*modules));
	struct expansion x = {
		.program = tool->program,
		.drivers = CELL_DRIVERS_DIR,
		.args = modules,
	};

	for (unsigned i = 0; i < profile->modules.count; i++)
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
	int failed = request_start_driver(&work, e);

	strings_free(work.raw_argv);
	if (failed)
		return -1;
	if (frame_send(cell->control_fd, &cell->engine->out, -1))
		return err_sys(e, "start a driver");
	cell->driver = tool->candidate;
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
	return true;
}
