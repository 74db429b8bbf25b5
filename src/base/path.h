/* path: names that come from outside, and opening beneath a directory without ever leaving it. */
#ifndef HOTCELL_BASE_PATH_H
#define HOTCELL_BASE_PATH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATH_MAX_BYTES = 4095, PATH_NAME_MAX = 255, PATH_MAX_DEPTH = 128 };

/* Whether `path` may name a file in a workspace: relative, no '..', no empty name, no NUL, no name
 * over 255 bytes. The sentence in *e is one that a user can act on. */
int path_check_relative(const char *path, size_t len, struct err *e);

/* open() of `path` beneath `dir_fd`: no '..', no absolute path, no magic link. With `no_symlinks`
 * nothing on the way may be a symlink either. -1 with errno. */
int path_open_beneath(int dir_fd, const char *path, int flags, unsigned mode, bool no_symlinks);

/* Where the symlink at `path` beneath `dir_fd` leads. 0, or -1 with errno: if it is none, too. */
int path_read_link(int dir_fd, const char *path, char ret[static PATH_MAX_BYTES + 1]);

/* open() of `path` as seen by someone whose root is `root_fd`. -1 with errno. */
int path_open_in_root(int root_fd, const char *path, int flags);

/* mkdir -p of all directories above the last name of `path`, beneath `dir_fd`, through no symlink. */
int path_make_parents(int dir_fd, const char *path, unsigned mode, struct err *e);

/* mkdir -p of `dir` itself, for nobody but us; as far as it can be made. For our own places, not for
 * those that others name. */
void path_make_private(const char *dir);

/* The part behind the last '/'. */
const char *path_base(const char *path);

/* `dir`/`name`, to be freed. */
char *path_join(const char *dir, const char *name);

#endif
