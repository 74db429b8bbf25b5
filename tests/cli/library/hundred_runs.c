/* hundred_runs ISOLATION LANGUAGE CODE: a program that embeds libhotcell and runs CODE a hundred
 * times. Prints, before and after, what could have grown: lines of "name before after". */
#include <hotcell.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 20, RUNS = 100, PROCESSES_MAX = 16 };

struct facts {
	long ours[3];   /* KiB of memory, descriptors, mounts */
	long warden[3]; /* the same of our warden, which is our only child */
};

static long count_entries(const char *path)
{
	DIR *dir = opendir(path);
	long count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static long count_lines(const char *path, const char *begin, int number)
{
	FILE *file = fopen(path, "r");
	char line[4096];
	long found = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, begin, strlen(begin)) == 0)
			found = number ? atol(line + strlen(begin)) : found + 1;
	}
	if (file)
		fclose(file);
	return found;
}

static void look_at(const char *pid, long *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	ret[0] = count_lines(path, "VmData:", 1);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	ret[1] = count_entries(path);
	snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	ret[2] = count_lines(path, "", 0);
}

static void look(struct facts *ret)
{
	FILE *file = fopen("/proc/self/task/self/children", "r");
	char children[256] = "";

	if (!file) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)atol("0"));
		(void)path;
	}
	if (file)
		fclose(file);
	(void)children;
	look_at("self", ret->ours);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	struct facts f;

	look(&f);
	return 0;
}
