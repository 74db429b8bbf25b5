#include "base/clock.h"
#include "engine/request.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char *const reason_names[] = {
	[HOTCELL_EXITED] = "exited",
	[HOTCELL_SIGNALED] = "signaled",
	[HOTCELL_TIMEOUT] = "timeout",
	[HOTCELL_CPU_LIMIT] = "cpu_limit",
	[HOTCELL_MEMORY_LIMIT] = "memory_limit",
	[HOTCELL_OUTPUT_LIMIT] = "output_limit",
	[HOTCELL_DISK_LIMIT] = "disk_limit",
	[HOTCELL_CANCELLED] = "cancelled",
	[HOTCELL_CELL_FAILED] = "cell_failed",
};

_Static_assert(sizeof(((struct hotcell_result *)0)->vm.missing_call) == VMM_CALL_NAME_MAX,
	"names of calls are of one size");

const char *hotcell_reason_name(enum hotcell_reason reason)
{
	return reason_names[reason];
}

void result_begin(struct hotcell_work *work)
{
	work->result = xalloc(sizeof(*work->result));
	work->result->language = xstrdup(work->tool.language->id);
	work->result->isolation = isolation_name(work->wish.kind);
	snprintf(work->result->isolation_why, sizeof(work->result->isolation_why), "%s", work->why);
	work->result->limits_not_enforced = xalloc((LIMIT_COUNT + 2) * sizeof(char *));
}

static void result_note_limits(struct hotcell_work *work)
{
	const struct msg_made *facts = &work->cell->facts;
	char **at = work->result->limits_not_enforced;

	for (int i = 0; i < LIMIT_COUNT; i++) {
		if (facts->not_enforced & LIMIT_BIT(i))
			*at++ = xstrdup(limit_table[i].name);
		else if (facts->soft & LIMIT_BIT(i))
			*at++ = xasprintf("%s: watched every 20 ms (soft)", limit_table[i].name);
	}
	if (facts->network_not_enforced)
		*at++ = xstrdup("network");
}

static void move_output(struct hotcell_bytes *ret, struct collected *from)
{
	ret->len = from->bytes.len;
	ret->truncated = from->truncated;
	ret->data = buf_take(&from->bytes);
}

static int exit_code_of(uint32_t wait_status)
{
	int status = (int)wait_status;

	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void result_note_compile(struct hotcell_work *work)
{
	struct hotcell_compile *c = &work->result->compile;

	c->present = 1;
	c->exit_code = exit_code_of(work->exited.wait_status);
	c->duration_us = work->exited.wall_us;
}

static bool cpu_is_used_up(const struct hotcell_work *work)
{
	uint64_t limit_us = work->step_limits.at[LIMIT_CPU_MS] * 1000;
	uint64_t used_us = work->usage.cpu_us;

	if (work->exited.cpu_us > used_us)
		used_us = work->exited.cpu_us;
	return limit_us && used_us >= limit_us;
}

static enum hotcell_reason reason_of(const struct hotcell_work *work)
{
	const struct msg_exited *m = &work->exited;
	int status = (int)m->wait_status;
	bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;

	if (work->backstop_hit)
		return HOTCELL_TIMEOUT;
	if (work->usage.oom_kills)
		return HOTCELL_MEMORY_LIMIT;
	if (work->ended_without_exit)
		return work->cancelled ? HOTCELL_CANCELLED : HOTCELL_CELL_FAILED;
	switch (m->ended_by) {
	case ENDED_BY_TIMEOUT:
		return HOTCELL_TIMEOUT;
	case ENDED_BY_CANCEL:
		return HOTCELL_CANCELLED;
	case ENDED_BY_CPU:
		return HOTCELL_CPU_LIMIT;
	case ENDED_BY_MEMORY:
		return HOTCELL_MEMORY_LIMIT;
	case ENDED_BY_OUTPUT:
		return HOTCELL_OUTPUT_LIMIT;
	default:
		break;
	}
	/* Anyone can send itself the signal: it counts only if the time was used. */
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL) &&
		cpu_is_used_up(work))
		return HOTCELL_CPU_LIMIT;
	/* A program that filled its disk, coped and went on to succeed is not ended by the limit. */
	if (m->disk_full && failed)
		return HOTCELL_DISK_LIMIT;
	return WIFSIGNALED(status) ? HOTCELL_SIGNALED : HOTCELL_EXITED;
}

static void describe(const struct hotcell_work *work, struct hotcell_result *r)
{
	static const struct {
		enum hotcell_reason reason;
		enum limit limit;
	} by_limit[] = {
		{ HOTCELL_TIMEOUT, LIMIT_WALL_MS },
		{ HOTCELL_CPU_LIMIT, LIMIT_CPU_MS },
		{ HOTCELL_MEMORY_LIMIT, LIMIT_MEMORY_BYTES },
		{ HOTCELL_OUTPUT_LIMIT, LIMIT_OUTPUT_BYTES },
		{ HOTCELL_DISK_LIMIT, LIMIT_DISK_BYTES },
	};
	char shown[32];

	if (r->reason == HOTCELL_SIGNALED)
		snprintf(r->reason_text, sizeof(r->reason_text), "killed by signal %d (%s)",
			r->exit_code - 128, strsignal(r->exit_code - 128));
	if (r->reason == HOTCELL_CELL_FAILED)
		snprintf(
			r->reason_text, sizeof(r->reason_text), "%.250s", work->cell->failure.text);
	for (size_t i = 0; i < sizeof(by_limit) / sizeof(by_limit[0]); i++) {
		const struct limit_row *row = &limit_table[by_limit[i].limit];

		if (r->reason == by_limit[i].reason)
			snprintf(r->reason_text, sizeof(r->reason_text), "%s limit of %s reached",
				row->name,
				limit_show(row->unit, work->step_limits.at[by_limit[i].limit],
					shown, sizeof(shown)));
	}
	if (r->reason == HOTCELL_DISK_LIMIT) {
		size_t used = strlen(r->reason_text);

		snprintf(r->reason_text + used, sizeof(r->reason_text) - used, ", or %s a file",
			limit_show(UNIT_BYTES, work->step_limits.at[LIMIT_FILE_BYTES], shown,
				sizeof(shown)));
	}
}

void result_complete(struct hotcell_work *work)
{
	struct hotcell_result *r = work->result;
	const struct usage *u = &work->usage;

	result_note_limits(work);
	if (work->request.cell && work->request.code && !work->clears && !work->request.cell_ends &&
		!work->is_quiet && !request_goes_as_text(&work->request, work->tool.language))
		r->code_file = xstrdup(work->entry);
	r->has_exited = !work->ended_without_exit;
	r->reason = reason_of(work);
	r->exit_code =
		work->ended_without_exit ? 128 + SIGKILL : exit_code_of(work->exited.wait_status);
	if (r->reason == HOTCELL_TIMEOUT)
		r->exit_code = -1;
	r->duration_us = work->exited.wall_us;
	/* Nobody told how long it took. */
	if (work->ended_without_exit && work->asked_us)
		r->duration_us = work->quiet_us + (uint64_t)(clock_now_us() - work->asked_us);
	if (work->request.keep)
		r->state = work->exited.kept ? HOTCELL_STATE_KEPT : HOTCELL_STATE_LOST;
	r->warm = work->profile || work->exited.waited;
	r->vm.exits = work->exited.vm.exits;
	r->vm.unknown_calls = work->exited.vm.unknown_calls;
	memcpy(r->vm.missing_call, work->exited.vm.missing_call, sizeof(r->vm.missing_call));
	/* What a watch saw last may be less than what the kernel told of those that ended. Where the kernel counted for
	 * the cell, that is more exact: an interpreter that stays has children of earlier runs among its own. */
	r->usage.cpu_us = u->cpu_us;
	if ((work->cell->facts.soft || !u->cpu_us) && work->exited.cpu_us > u->cpu_us)
		r->usage.cpu_us = work->exited.cpu_us;
	/* A watch from outside may have missed the peak that the kernel saw. */
	r->usage.peak_memory_bytes = u->peak_memory_bytes;
	if ((work->cell->facts.soft & LIMIT_BIT(LIMIT_MEMORY_BYTES) || !u->peak_memory_bytes) &&
		work->exited.max_rss_bytes > u->peak_memory_bytes)
		r->usage.peak_memory_bytes = work->exited.max_rss_bytes;
	r->usage.processes = u->peak_processes ? u->peak_processes : work->exited.processes;
	move_output(&r->out, &work->out[0][0]);
	move_output(&r->err, &work->out[0][1]);
	move_output(&r->compile.out, &work->out[1][0]);
	move_output(&r->compile.err, &work->out[1][1]);
	describe(work, r);
}

void hotcell_result_free(struct hotcell_result *r)
{
	if (!r)
		return;
	free(r->out.data);
	free(r->err.data);
	free(r->compile.out.data);
	free(r->compile.err.data);
	free(r->language);
	free(r->code_file);
	for (size_t i = 0; i < r->files_count; i++) {
		free(r->files[i].path);
		free(r->files[i].target);
	}
	free(r->files);
	for (char **at = r->limits_not_enforced; at && *at; at++)
		free(*at);
	free(r->limits_not_enforced);
	free(r);
}
