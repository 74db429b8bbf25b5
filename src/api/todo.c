/* Not written yet: removed before this branch is landed. */
#include "api/handlers.h"

#define LATER(name)                                                                                \
	__attribute__((weak)) void name(struct call *call)                                         \
	{                                                                                          \
		reply_error(call, 501, "unavailable", "not written yet");                          \
	}
LATER(batch_run)
LATER(languages_list)
LATER(languages_add)
LATER(languages_remove)
LATER(openapi_get)
LATER(docs_page)
LATER(docs_script)
LATER(docs_style)
