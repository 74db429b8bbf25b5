/* staging: the list of what is to be put into a workspace before a run. */
#ifndef HOTCELL_WORKSPACE_STAGING_H
#define HOTCELL_WORKSPACE_STAGING_H

#include "base/err.h"
#include "base/file_kind.h"

#include <stdbool.h>
#include <stddef.h>

struct stage_item {
	char *path; /* in the workspace */
	enum file_kind kind;
	unsigned mode;
	char *host_path;  /* read when its turn comes; or */
	const void *data; /* bytes that the caller keeps; or */
	char *target;     /* where a symlink leads */
	char *owned;      /* what `data` points to, where it is ours */
	size_t data_len;
	bool is_code; /* of the run, and not a file that anybody has asked for */
};

struct staging {
	struct stage_item *items;
	size_t count;
	size_t cap;
};

enum { STAGING_ITEMS_MAX = 20000 };

int staging_add_data(
	struct staging *s, const char *path, const void *data, size_t len, struct err *e);
int staging_add_code(
	struct staging *s, const char *path, const void *data, size_t len, struct err *e);
/* A file, or a directory with all that is in it. Symlinks in it stay what they are if they lead to
 * something in it; else they are an error, as are sockets, fifos and devices. */
int staging_add_host(struct staging *s, const char *host_path, const char *path, struct err *e);
/* Wherever it leads: only what is in the cell goes there. */
int staging_add_link(struct staging *s, const char *path, const char *target, struct err *e);
/* A file or directory whose bytes, if any, come later: see staging_fill(). */
int staging_add_empty(
	struct staging *s, const char *path, enum file_kind kind, unsigned mode, struct err *e);
/* Takes over `data`. */
void staging_fill(struct stage_item *item, char *data, size_t len);
bool staging_has(const struct staging *s, const char *path);
void staging_free(struct staging *s);

#endif
