/* session_files: what the files about sessions share. */
#ifndef HOTCELL_API_SESSION_FILES_H
#define HOTCELL_API_SESSION_FILES_H

#include "api/api.h"
#include "service/sessions.h"

/* [{path, kind, size_bytes, generated}…] */
json_t *session_files_json(const struct session_found *found, bool only_generated);
/* In on_headers: the body goes into the call's body_fd. */
void session_files_take_body(struct call *call, uint64_t max);
/* Moves what runs have left to the file store, closes the session, and answers with the ids (session_keep.c). */
void session_keep_begin(struct call *call, struct session *session);

#endif
