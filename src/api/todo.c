/* Not written yet: removed before this branch is landed. */
#include "api/handlers.h"

#define LATER(name)                                                                                \
	__attribute__((weak)) void name(struct call *call)                                         \
	{                                                                                          \
		reply_error(call, 501, "unavailable", "not written yet");                          \
	}
LATER(sessions_add)
LATER(sessions_list)
LATER(sessions_get)
LATER(sessions_change)
LATER(sessions_remove)
LATER(sessions_execute)
LATER(sessions_stream)
LATER(sessions_bash)
LATER(sessions_interrupt)
LATER(session_files_list)
LATER(session_files_put)
LATER(session_files_get)
LATER(session_files_remove)
LATER(session_archive_get)
LATER(session_archive_put)
LATER(session_files_expect)
LATER(session_archive_expect)
