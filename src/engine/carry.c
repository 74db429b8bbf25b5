/* What a compiler made, on its way from its own cell to the program's. It is fetched whole before
 * the program's cell is made, and staged there like any other file. The compiler has read what
 * somebody hostile wrote, so what its cell says is bounded like all that comes from cells. */
#include "engine/work.h"

#include "base/own.h"

#include <string.h>

enum { CARRY_MAX = 256 << 20 };

int carry_begin(struct hotcell_work *work, struct err *e)
{
	work->carry_at = work->staging.count;
	put_bare(&work->engine->out, CELL_LIST);
	return cell_send(work->cell) ? err_set(e, ERR_GONE, "the compiler's cell is gone") : 0;
}

int carry_file(struct hotcell_work *work, const struct msg_file *m)
{
	struct err ignored;

	/* Links and the like no compiler of ours leaves behind. */
	if (!m->generated || (m->kind != FILE_REGULAR && m->kind != FILE_DIRECTORY))
		return 0;
	return staging_add_empty(&work->staging, m->path, m->kind,
		(m->mode & 0777) | (m->kind == FILE_DIRECTORY ? 0700 : 0400), &ignored);
}

int carry_next(struct hotcell_work *work)
{
	const struct staging *s = &work->staging;

	while (work->carry_at < s->count && s->items[work->carry_at].kind != FILE_REGULAR)
		work->carry_at++;
	if (work->carry_at == s->count)
		return 0;
	put_get(&work->engine->out, &(struct msg_get){ .path = s->items[work->carry_at].path });
	work->carry_asked = true;
	/* One small frame after another: there is room, or there is no cell. */
	return cell_send(work->cell) ? -1 : 1;
}

int carry_data(struct hotcell_work *work, const struct msg_data *m)
{
	work->carried_bytes += m->data_len;
	if (!work->carry_asked || work->carried_bytes > CARRY_MAX)
		return -1;
	buf_add(&work->carried, m->data, m->data_len);
	return 0;
}

int carry_got(struct hotcell_work *work, uint32_t error)
{
	size_t len = work->carried.len;

	if (!work->carry_asked || error)
		return -1;
	work->carry_asked = false;
	staging_fill(&work->staging.items[work->carry_at++], buf_take(&work->carried), len);
	return 0;
}
