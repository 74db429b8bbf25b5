/* hotcell-warden: started by hotcell, not by people. Small, without network, without JSON. */
#include "cell/wall/enter.h"
#include "cell/wall/seccomp.h"
#include "warden/warden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static int usage(void)
{
	fputs("usage: hotcell-warden --isolation NAME --socket FD [--drivers DIR] [--mount DIR]... "
	      "[--host-network] [--once] [--check]\n"
	      "       hotcell-warden --explain\n"
	      "This program is started by hotcell.\n",
		stderr);
	return 125;
}

static int explain(void)
{
	static const char *const where[] = {
		[STEP_ANYWHERE] = "",
		[STEP_IN_CONTAINER] = "(container only) ",
		[STEP_IN_VM] = "(vm only) ",
	};
	const struct step_text *steps;
	unsigned count = enter_steps(&steps);

	puts("The child's way into a container cell or a vm cell, in this order:\n");
	for (unsigned i = 0; i < count; i++)
		printf("  %2u  %-14s %s%s\n", i + 1, steps[i].name, where[steps[i].where],
			steps[i].why);
	puts("\nSystem calls (anything else: ENOSYS; a foreign ABI: the process is killed):\n");
	for (unsigned i = 0; i < seccomp_table_count; i++) {
		const struct seccomp_row *row = &seccomp_table[i];
		char condition[96] = "";
		int used = 0;

		if (row->mask)
			used = snprintf(condition, sizeof(condition), "arg%u & %#x == %#x",
				row->argument, row->mask, row->value);
		if (row->and_mask)
			snprintf(condition + used, sizeof(condition) - (size_t)used,
				", arg%u%s & %#x == %#x", row->and_argument % SECCOMP_UPPER,
				row->and_argument < SECCOMP_UPPER ? "" : "'s upper half",
				row->and_mask, row->and_value);
		printf("  %-24s %-6s  %-34s  %s\n", row->call, seccomp_action_name(row->action),
			condition, row->why);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fputs("hotcell-warden: cannot write to standard output\n", stderr);
		return 125;
	}
	return 0;
}

static bool add_mount_dir(const char **dirs, const char *dir)
{
	size_t count = 0;

	while (dirs[count])
		count++;
	if (count == MOUNT_DIRS_MAX || dir[0] != '/')
		return false;
	dirs[count] = dir;
	return true;
}

int main(int argc, char **argv)
{
	static const char *mount_dirs[MOUNT_DIRS_MAX + 1];
	struct warden_options options = {
		.socket_fd = -1,
		.mount_dirs = mount_dirs,
		.command_line = argv[0],
		.command_line_size =
			(size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]),
	};

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--explain") == 0)
			return explain();
		if (strcmp(argv[i], "--host-network") == 0) {
			options.host_network = true;
			continue;
		}
		if (strcmp(argv[i], "--once") == 0) {
			options.once = true;
			continue;
		}
		if (strcmp(argv[i], "--check") == 0) {
			options.check = true;
			continue;
		}
		if (!value)
			return usage();
		if (strcmp(argv[i], "--isolation") == 0)
			options.isolation = isolation_by_name(value);
		else if (strcmp(argv[i], "--socket") == 0)
			options.socket_fd = atoi(value);
		else if (strcmp(argv[i], "--drivers") == 0)
			options.drivers = value;
		else if (strcmp(argv[i], "--mount") != 0 || !add_mount_dir(mount_dirs, value))
			return usage();
		i++;
	}
	if (!options.isolation || options.socket_fd < 0)
		return usage();
	return warden_run(&options);
}
