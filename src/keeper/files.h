/* files: the keeper's side of PUT, LIST, GET and REMOVE. Everything is beneath the workspace, through no
 * symlink, and blocks on nothing that a program may have left there. */
#ifndef HOTCELL_KEEPER_FILES_H
#define HOTCELL_KEEPER_FILES_H

#include "base/err.h"
#include "wire/cell_wire.h"
#include "workspace/baseline.h"

enum { FILES_TOLD_MAX = 256, FILES_CODE_MAX = 64 };

struct files {
	int workspace_fd;
	bool is_in_memory; /* files are: those of a process cell are not */
	/* What runs' code was put into last: it may still be there, and is nobody's. */
	uint64_t code[FILES_CODE_MAX];
	unsigned code_count;
	struct baseline baseline;
	/* The file that is being put, piece by piece. */
	int put_fd;
	char *put_path;
	uint64_t put_hash;
	bool touched; /* there may be something in the workspace or in /tmp */
	bool kept;    /* what is there was put for programs to come */
	/* When a run's files were last told: those of the next one are younger, and not among these, which are as
	 * young. What there is no room for, is told twice. */
	int64_t since_ns;
	struct told {
		uint64_t path_hash;
		int64_t changed_ns;
		uint64_t inode;
		uint64_t size;
	} told[FILES_TOLD_MAX];
	size_t told_count;
};

int files_open(struct files *f, const char *workspace, bool is_in_memory, struct err *e);
void files_close(struct files *f);

int files_put(struct files *f, const struct msg_put *m, struct err *e);
/* The last piece has been put: what is there now is the baseline. */
int files_put_end(struct files *f, struct err *e);

/* Rather no file than half of one; and what it took is there for others again. */
void files_drop_half(struct files *f);

/* Removes all that is in the workspace and in `tmp`, and forgets what was staged. -1 if there is too much. */
int files_clear(struct files *f, const char *tmp, struct err *e);

/* Puts a file into an empty workspace, looks for it, and removes it: a keeper is a copy of its warden, and each page that
 * it writes to for the first time costs a fault. Here nobody waits for that. */
void files_rehearse(struct files *f);

/* Each frame goes to `send`, which returns non-zero to stop. */
typedef int (*files_send)(void *context, const struct frame_out *frame);
/* Whether LIST would tell of anything generated. */
bool files_anything_new(struct files *f);
int files_list(struct files *f, files_send send, void *context);
/* The same behind a run: what is generated is what it has made or changed. */
int files_list_run(struct files *f, files_send send, void *context);
int files_get(struct files *f, const struct msg_get *m, files_send send, void *context);

/* A directory goes with all that is in it; -1 with *e also if that is too much for one time. `only_code`: what is
 * something else than a run's code stays. */
int files_remove(struct files *f, const char *path, bool only_code, struct err *e);

#endif
