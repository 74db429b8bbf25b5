/* THE table: everything that the service answers. */
#include "api/execute.h"
#include "api/handlers.h"

/* clang-format off */
const struct route routes[] = {
	{ "POST",   "/v1/execute",                     execute_run,          .summary = "Run code, and wait for it" },
	{ "POST",   "/v1/execute/stream",              execute_stream,       .summary = "Run code; its output comes as server-sent events" },
	{ "POST",   "/v1/batch",                       batch_run,            .summary = "Run many, side by side" },

	{ "POST",   "/v1/files",                       files_add,            .on_headers = files_expect, .on_refused = files_too_large,
	                                                                     .summary = "Store a file" },
	{ "GET",    "/v1/files",                       files_list,           .summary = "Stored files" },
	{ "GET",    "/v1/files/{file_id}",             files_get,            .summary = "A stored file" },
	{ "DELETE", "/v1/files/{file_id}",             files_remove,         .summary = "Remove a stored file" },

	{ "POST",   "/v1/sessions",                    sessions_add,         .summary = "Open a session" },
	{ "GET",    "/v1/sessions",                    sessions_list,        .summary = "Open sessions" },
	{ "GET",    "/v1/sessions/{session_id}",       sessions_get,         .summary = "A session: its configuration, state and cells" },
	{ "PATCH",  "/v1/sessions/{session_id}",       sessions_change,      .summary = "Extend a session" },
	{ "DELETE", "/v1/sessions/{session_id}",       sessions_remove,      .summary = "Close a session" },
	{ "POST",   "/v1/sessions/{session_id}/execute",        sessions_execute,   .summary = "Run code in a session" },
	{ "POST",   "/v1/sessions/{session_id}/execute/stream", sessions_stream,    .summary = "Run code in a session; its output comes as server-sent events" },
	{ "POST",   "/v1/sessions/{session_id}/bash",           sessions_bash,      .summary = "Run a shell command in a session" },
	{ "POST",   "/v1/sessions/{session_id}/interrupt",      sessions_interrupt, .summary = "Interrupt what runs in a session" },
	{ "GET",    "/v1/sessions/{session_id}/files",          session_files_list, .summary = "Files of a session's workspace" },
	{ "PUT",    "/v1/sessions/{session_id}/files/{path…}",  session_files_put,  .on_headers = session_files_expect, .on_refused = files_too_large,
	                                                                            .summary = "Write a file of a session" },
	{ "GET",    "/v1/sessions/{session_id}/files/{path…}",  session_files_get,  .summary = "Read a file of a session" },
	{ "DELETE", "/v1/sessions/{session_id}/files/{path…}",  session_files_remove, .summary = "Remove a file of a session" },
	{ "GET",    "/v1/sessions/{session_id}/archive",        session_archive_get, .summary = "A session's workspace as a tar archive" },
	{ "PUT",    "/v1/sessions/{session_id}/archive",        session_archive_put, .on_headers = session_archive_expect, .on_refused = session_archive_too_large,
	                                                                            .summary = "Unpack a tar archive into a session's workspace" },

	{ "GET",    "/v1/runs",                        runs_list,            .summary = "Runs, the newest first" },
	{ "GET",    "/v1/runs/{run_id}",               runs_get,             .summary = "A run" },
	{ "GET",    "/v1/runs/{run_id}/stream",        runs_follow,          .summary = "Follow a run: what it has printed, then what it prints" },
	{ "DELETE", "/v1/runs/{run_id}",               runs_cancel,          .summary = "Cancel a run" },

	{ "GET",    "/v1/languages",                   languages_list,       .summary = "Languages" },
	{ "POST",   "/v1/languages",                   languages_add,        ROUTE_ADMIN, .summary = "Register a language" },
	{ "DELETE", "/v1/languages/{language_id}",     languages_remove,     ROUTE_ADMIN, .summary = "Remove a registered language" },

	{ "GET",    "/health",                         health_contract,      ROUTE_OPEN, .summary = "Whether it works" },
	{ "GET",    "/livez",                          health_live,          ROUTE_OPEN, .summary = "Whether the process lives" },
	{ "GET",    "/readyz",                         health_ready,         ROUTE_OPEN, .summary = "Whether it is warm, and takes runs" },
	{ "GET",    "/metrics",                        health_metrics,       .summary = "Counters, for Prometheus" },
	{ "GET",    "/openapi.json",                   openapi_get,          ROUTE_OPEN, .summary = "This API, as OpenAPI 3.1" },
	{ "GET",    "/docs",                           docs_page,            ROUTE_OPEN, .summary = "This API, as a page" },
	{ "GET",    "/docs/docs.js",                   docs_script,          ROUTE_OPEN, .summary = "The page's script" },
	{ "GET",    "/docs/docs.css",                  docs_style,           ROUTE_OPEN, .summary = "The page's style" },
};
/* clang-format on */

const size_t routes_count = sizeof(routes) / sizeof(routes[0]);
