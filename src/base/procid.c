#include "base/procid.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int start_time(long pid, unsigned long long *ret)
{
	char path[64];
	char text[1024];
	char *at;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)))
		return -1;
	at = strrchr(text, ')');
	/* A zombie is dead: who should reap it may never do so. */
	if (!at || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X')
		return -1;
	/* Field 22; the one behind the parenthesis is field 3. */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -1;
	*ret = strtoull(at, NULL, 10);
	return 0;
}

static int pid_namespace(unsigned long long *ret)
{
	struct stat s;

	if (stat("/proc/self/ns/pid", &s))
		return -1;
	*ret = s.st_ino;
	return 0;
}

int procid_self(char *ret, size_t size)
{
	unsigned long long started;
	unsigned long long space;

	if (pid_namespace(&space) || start_time(getpid(), &started))
		return -1;
	snprintf(ret, size, "%llu-%ld-%llu", space, (long)getpid(), started);
	return 0;
}

bool procid_is_dead(const char *text)
{
	unsigned long long space;
	unsigned long long started;
	unsigned long long now_space;
	unsigned long long now_started;
	long pid;

	if (sscanf(text, "%llu-%ld-%llu", &space, &pid, &started) != 3)
		return false;
	if (pid_namespace(&now_space) || now_space != space)
		return false;
	return start_time(pid, &now_started) != 0 || now_started != started;
}
