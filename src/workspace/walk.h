/* walk: every name beneath a directory that somebody hostile may have filled.
 *
 * Follows no symlink, opens nothing but directories, and stops at bounds of number and depth, so
 * that ten thousand nested directories or a million files cost a known amount of work. */
#ifndef HOTCELL_WORKSPACE_WALK_H
#define HOTCELL_WORKSPACE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct walk_options {
	size_t entries_max;
	size_t depth_max;
	bool open_up; /* the directories are ours: give back rights that were taken from them */
	/* Returns non-zero to stop the walk. `path` is relative to the top. */
	int (*on_entry)(void *context, const char *path, const struct stat *status);
	void *context;
};

/* 0 with *ret_complete false if a bound was hit or a directory could not be read; what on_entry
 * returned if that was not 0; -1 with errno if `top_fd` itself cannot be read. */
int walk(int top_fd, const struct walk_options *options, bool *ret_complete);

/* Gives us back the right to look into a directory of ours, if `name` is one. */
void walk_open_up(int dir_fd, const char *name);

/* Removes all that is beneath `top_fd`, to any depth, without recursion. Best effort. */
void walk_remove_all(int top_fd);
/* The same, but no more than so many names. Whether nothing is left. */
bool walk_remove_some(int top_fd, size_t names_max);

#endif
