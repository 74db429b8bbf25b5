/* session_inner: what the files of sessions share. */
#ifndef HOTCELL_SERVICE_SESSION_INNER_H
#define HOTCELL_SERVICE_SESSION_INNER_H

#include "service/sessions.h"

/* ---- session_run.c ---- */
/* Its cell, and the directory of its files. */
int session_make_place(struct session *session, struct err *e);
/* Whether only its cell shows that the session can be had at all: it is waited for before anybody is told. */
bool session_depends_on_cell(const struct session *session);
/* A cell that does not stay. */
void session_drop_brief_cell(struct session *session, const char *why);
/* What is left of them. */
void session_drop_place(struct session *session);
void session_note_cell_end(struct session *session, const char *why);
/* Where the directories of sessions are; to be freed. */
char *session_mirrors_dir(const struct service *s);

/* ---- session_describe.c ---- */
const char *session_strategy_name(const struct session *session);
/* What it was asked for, as its row has it. */
json_t *session_describe_config(const struct session *session);

/* ---- session_files.c ---- */
/* The files that it begins with; own_turn.on_files is told. */
void session_put_files(struct session *session);
/* session_files() of the cell's, though there is a mirror. */
void session_files_in_cell(struct session_turn *turn, const struct hotcell_files *what);
/* The service ends: what is being done with files in a cell is not done. */
void session_files_abandon(struct session *session);

#endif
