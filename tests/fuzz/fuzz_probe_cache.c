/* A probe cache file in any state. Opening never fails; what is learned then is known next time. */
#include "fuzz.h"

#include "language/cache.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char file[96];

static void remove_place(void)
{
	unlink(file);
	rmdir(dir);
}

static void make_place(void)
{
	snprintf(dir, sizeof(dir), "%s/hotcell-fuzz.XXXXXX",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	CLAIM(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/probes", dir);
	atexit(remove_place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe_cache *c;
	const char *version;
	bool works;
	int fd;

	if (!dir[0])
		make_place();
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CLAIM(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
	c = probe_cache_open(dir);
	probe_cache_get(c, "/bin/sh", "--version", &works, &version);
	probe_cache_set(c, "/bin/sh", "tab\there\\", true, "1\n2");
	probe_cache_close(c);
	c = probe_cache_open(dir);
	CLAIM(probe_cache_get(c, "/bin/sh", "tab\there\\", &works, &version));
	CLAIM(works && strcmp(version, "1\n2") == 0);
	probe_cache_close(c);
	return 0;
}
