/* session_inner: what the two files of sessions share. */
#ifndef HOTCELL_SERVICE_SESSION_INNER_H
#define HOTCELL_SERVICE_SESSION_INNER_H

#include "service/sessions.h"

/* ---- session_run.c ---- */
/* Its cell, or the directory of its files. */
int session_make_place(struct session *session, struct hotcell_error *e);
/* The files that it begins with; session_files_are_put() is told. */
void session_put_files(struct session *session);
void session_note_cell_end(struct session *session, const char *why);
/* Where the directories of sessions are; to be freed. */
char *session_mirrors_dir(const struct service *s);

/* ---- sessions.c ---- */
void session_files_are_put(struct session *session, const struct hotcell_error *failure);

#endif
