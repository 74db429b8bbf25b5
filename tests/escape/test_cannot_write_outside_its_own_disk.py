"""A cell can change files in /workspace, /tmp and /dev/shm, and nothing else in all that it sees."""

# In C, because it tries every file and directory that there is.
ATTACK = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static unsigned directories, files;

static void did(const char *what, const char *path)
{
	printf("%s %s\n", what, path);
}

static void try_directory(const char *path)
{
	char name[4096];

	directories++;
	snprintf(name, sizeof(name), "%s/made-by-a-cell", path);
	if (mkdir(name, 0755) == 0)
		did("mkdir", name);
	if (open(name, O_WRONLY | O_CREAT | O_EXCL, 0644) >= 0)
		did("create", name);
	if (symlink("/tmp", name) == 0)
		did("symlink", name);
	if (chmod(path, 0777) == 0)
		did("chmod", path);
	if (open(path, O_TMPFILE | O_WRONLY, 0600) >= 0)
		did("tmpfile", path);
	if (rename(path, "/tmp/taken") == 0)
		did("rename", path);
	if (utimensat(AT_FDCWD, path, NULL, 0) == 0)
		did("touch", path);
}

static void try_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0) {
		did("write", path);
		close(fd);
	}
	/* Of so many, some must do. */
	if (files++ % 16)
		return;
	if (truncate(path, 0) == 0)
		did("truncate", path);
	if (chmod(path, 0777) == 0)
		did("chmod", path);
	if (unlink(path) == 0)
		did("unlink", path);
	if (link(path, "/tmp/linked") == 0)
		did("link", path);
	if (setxattr(path, "user.x", "x", 1, 0) == 0)
		did("setxattr", path);
}

static int is_own_disk(const char *path)
{
	static const char *const own[] = { "/workspace", "/tmp", "/dev/shm", "/proc" };

	for (int i = 0; i < 4; i++)
		if (strncmp(path, own[i], strlen(own[i])) == 0 &&
			(path[strlen(own[i])] == '\0' || path[strlen(own[i])] == '/'))
			return 1;
	return 0;
}

static int look(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
	(void)s;
	(void)ftw;
	if (is_own_disk(path) || strstr(path, "made-by-a-cell"))
		return FTW_SKIP_SUBTREE;
	if (kind == FTW_D || kind == FTW_DNR)
		try_directory(path);
	else if (kind == FTW_F)
		try_file(path);
	return FTW_CONTINUE;
}

int main(void)
{
	if (nftw("/", look, 30, FTW_PHYS | FTW_ACTIONRETVAL))
		perror("nftw");
	printf("looked at %u directories and %u files\n", directories, files);
	return 0;
}
"""

# Devices whose writing reaches nothing: (and /dev/null swallows, /dev/full refuses.)
HARMLESS = {"write /dev/null", "write /dev/zero", "write /dev/full", "write /dev/random",
            "write /dev/urandom", "truncate /dev/null"}


def test_cannot_write_outside_its_own_disk(attack):
    result = attack(ATTACK, language="c", timeout="120s")
    *did, counted = result.stdout.splitlines()
    words = counted.split()
    assert int(words[2]) > 500 and int(words[5]) > 5000, f"it saw too little: {result!r}"
    assert set(did) <= HARMLESS, did


def test_can_write_where_it_may(attack):
    """So that the test above can fail."""
    own = ATTACK.replace('"/workspace", "/tmp", "/dev/shm", "/proc"', '"/usr", "/proc", "/bin", "/lib"')
    did = attack(own, language="c").stdout.splitlines()
    for place in ("/tmp", "/workspace", "/dev/shm"):
        assert f"mkdir {place}/made-by-a-cell" in did, did
    assert "write /workspace/main.c" in did
