/* request: from what the caller asks to what the engine does, with every check on the way. */
#ifndef HOTCELL_ENGINE_REQUEST_H
#define HOTCELL_ENGINE_REQUEST_H

#include "engine/work.h"

/* The beginning of the file that is to be run, if that is one of the inputs. */
void request_peek(const struct hotcell_request *q, struct buf *ret);
/* The language that the request names, or that its entry file betrays. */
const struct language *request_language(
	struct hotcell *h, const struct hotcell_request *q, struct err *e);
/* The isolation that it asks for, or the best that machine and language have; *ret_why says why the
 * best is no vm. */
int request_isolation(struct hotcell *h, const struct hotcell_request *q,
	const struct language *language, enum isolation_kind *ret, char *ret_why, size_t why_size,
	struct err *e);
/* Limits, network and needs of a cell of ret->kind. */
int request_wish(const struct hotcell_request *q, const struct tool *tool, struct cell_wish *ret,
	struct err *e);
int request_stage_inputs(
	const struct hotcell_input *inputs, size_t count, struct staging *ret, struct err *e);
/* What goes into the workspace, and which file of it is run. */
int request_stage(const struct hotcell_request *q, const struct tool *tool, struct staging *ret,
	char **ret_entry, struct err *e);
/* Whether the code of a run that keeps is in the request alone, and in no file. */
bool request_goes_as_text(const struct hotcell_request *q, const struct language *language);
bool request_has_stdin(const struct hotcell_request *q);
/* Of the environment: NAME=value. */
int request_check_setting(const char *setting, struct err *e);
bool request_compiles(const struct hotcell_work *work);
/* The limits of the compile step. */
void request_compile_limits(const struct hotcell_work *work, struct limits *ret);

size_t request_code_length(const struct hotcell_request *q);

#endif
