#include "engine/warm_request.h"

#include "base/own.h"
#include "base/path.h"
#include "engine/request.h"

#include <stdio.h>
#include <string.h>

static void add_field(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static void add_list(struct buf *b, const char *const *list)
{
	char count[16];
	unsigned n = 0;

	while (list && list[n])
		n++;
	snprintf(count, sizeof(count), "%u", n);
	add_field(b, count);
	for (unsigned i = 0; list && i < n; i++)
		add_field(b, list[i]);
}

/* Whether the program is the only file in its workspace. */
static bool is_alone(const struct hotcell_work *work)
{
	return work->staging.count == 1 && !work->cell->has_leftovers;
}

/* Whether so little may be printed that it takes somebody who counts along. */
static bool is_told_early(const struct limits *limits)
{
	uint64_t most = limits->at[LIMIT_OUTPUT_BYTES];

	return most && most <= EXITED_OUTPUT_MAX;
}

/* drivers/python/warm.py says what they mean. */
static void add_flags(struct buf *b, const struct hotcell_work *work)
{
	const struct hotcell_request *q = &work->request;
	const struct {
		bool is_so;
		char flag;
	} rows[] = {
		{ q->last_line, 'l' },
		{ is_alone(work), 'a' },
		{ q->keep, 'k' },
		{ work->by_driver && !request_has_stdin(q), 'n' },
		{ work->by_driver && q->keep && request_has_stdin(q), 'i' },
		{ q->keep && request_has_stdin(q), 's' },
	};
	char flags[COUNT(rows) + 1];
	size_t len = 0;

	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].is_so)
			flags[len++] = rows[i].flag;
	flags[len] = '\0';
	add_field(b, flags);
}

/* A kept interpreter is as it is, whatever lies in its workspace. But the keeper must know of it: the first time
 * it goes out. And if code is to be a file, there may be no place for that: who is told so in the middle of a run
 * has no way back. */
static bool may_be_quiet(const struct hotcell_work *work)
{
	const struct hotcell_request *q = &work->request;
	bool is_apart = q->keep ? work->continues && !work->staging.count : is_alone(work);

	return !work->by_driver && is_apart && !request_has_stdin(q) &&
	       !is_told_early(&work->limits);
}

int warm_request_build(struct hotcell_work *work, struct err *e)
{
	const struct hotcell_request *q = &work->request;
	bool has_text = q->code && work->tool.language->keeps_state != LANGUAGE_KEEPS_ONLY;
	auto_free char *path = path_join(work->cell->workspace, work->entry);
	struct buf *b = &work->warm_request;

	add_flags(b, work);
	add_field(b, path);
	add_list(b, q->args);
	for (const char *const *at = q->env; at && *at; at++)
		if (request_check_setting(*at, e))
			return -1;
	add_list(b, q->env);
	/* As much as an EXEC could say. */
	if (b->len > FRAME_MAX)
		return err_set(e, ERR_LIMIT, "arguments and environment together are over %d bytes",
			FRAME_MAX);
	/* The text itself, where it fits: the driver need not read the file then. */
	if (has_text && b->len + request_code_length(q) <= FRAME_DATA_MAX) {
		buf_add(b, q->code, request_code_length(q));
		work->may_be_quiet = may_be_quiet(work);
	}
	return 0;
}

void warm_request_rehearsal(const struct language *language, struct buf *ret)
{
	auto_free char *path = NULL;

	if (!language->rehearsal)
		return;
	add_field(ret, "a");
	path = xasprintf("/workspace/%s", language->file);
	add_field(ret, path);
	add_list(ret, NULL);
	add_list(ret, NULL);
	buf_add_str(ret, language->rehearsal);
}

int warm_request_put(struct hotcell_work *work, struct err *e)
{
	put_data(&work->engine->out, CELL_REQUEST,
		&(struct msg_data){
			(const uint8_t *)work->warm_request.data, work->warm_request.len });
	if (work->engine->out.overflow)
		return err_set(e, ERR_LIMIT, "arguments and environment together are over %d bytes",
			FRAME_MAX);
	return 0;
}
