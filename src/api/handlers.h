/* handlers: what routes.c names. One file for each kind of thing. */
#ifndef HOTCELL_API_HANDLERS_H
#define HOTCELL_API_HANDLERS_H

#include "api/api.h"

/* ---- health.c ---- */
void health_contract(struct call *call);
void health_live(struct call *call);
void health_ready(struct call *call);
void health_metrics(struct call *call);

/* ---- openapi.c, docs.c ---- */
void openapi_get(struct call *call);
void docs_page(struct call *call);
void docs_script(struct call *call);
void docs_style(struct call *call);

/* ---- batch.c ---- */
void batch_run(struct call *call);

/* ---- files.c ---- */
void files_expect(struct call *call);
void files_too_large(struct call *call, unsigned status, const char *why);
void files_add(struct call *call);
void files_list(struct call *call);
void files_get(struct call *call);
void files_remove(struct call *call);

/* ---- sessions.c ---- */
void sessions_add(struct call *call);
void sessions_list(struct call *call);
void sessions_get(struct call *call);
void sessions_change(struct call *call);
void sessions_remove(struct call *call);
void sessions_execute(struct call *call);
void sessions_stream(struct call *call);
void sessions_bash(struct call *call);
void sessions_interrupt(struct call *call);

/* ---- session_files.c ---- */
void session_files_list(struct call *call);
void session_files_expect(struct call *call);
void session_files_put(struct call *call);
void session_files_get(struct call *call);
void session_files_remove(struct call *call);

/* ---- session_archive.c ---- */
void session_archive_get(struct call *call);
void session_archive_expect(struct call *call);
void session_archive_too_large(struct call *call, unsigned status, const char *why);
void session_archive_put(struct call *call);

/* ---- runs.c ---- */
void runs_list(struct call *call);
void runs_get(struct call *call);
void runs_follow(struct call *call);
void runs_cancel(struct call *call);

/* ---- languages.c ---- */
void languages_list(struct call *call);
void languages_add(struct call *call);
void languages_remove(struct call *call);

#endif
