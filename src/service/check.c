#include "service/check.h"

#include "base/buf.h"
#include "base/log.h"
#include "service/job.h"
#include "service/service.h"
#include "service/summary.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <uv.h>

enum { REASON_MAX = 400 };

struct check {
	struct list link;
	struct job *job;
	uv_process_t process;
	uv_pipe_t input;
	uv_pipe_t output;
	uv_timer_t timer;
	uv_write_t write;
	char *request;
	char reason[REASON_MAX + 1];
	size_t reason_len;
	int64_t status;
	bool has_exited;
	bool output_ended;
	bool is_late;
	unsigned open; /* handles */
};

static char *describe(const struct job *job)
{
	const struct spec *spec = &job->spec;
	json_t *o = summary_json(job);
	char *text;

	json_object_set_new(o, "owner", json_string(job->caller.owner));
	json_object_set_new(o, "code",
		spec->code ? json_stringn_nocheck(spec->code, spec->code_len) : json_null());
	json_object_set_new(
		o, "network", json_string(spec->network == HOTCELL_NETWORK_HOST ? "host" : "none"));
	json_object_set_new(o, "timeout_ms", json_integer((json_int_t)spec->limits.wall_ms));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

static void on_closed(uv_handle_t *handle)
{
	struct check *c = handle->data;

	if (--c->open)
		return;
	job_release(c->job);
	free(c->request);
	free(c);
}

static void close_one(struct check *c, uv_handle_t *handle)
{
	handle->data = c;
	if (!uv_is_closing(handle))
		uv_close(handle, on_closed);
}

static void begin_next(struct checks *all);

static void end(struct check *c)
{
	struct checks *all = &c->job->service->checks;

	if (list_is_empty(&c->link))
		return;
	list_remove(&c->link);
	all->going_on_count--;
	close_one(c, (uv_handle_t *)&c->process);
	close_one(c, (uv_handle_t *)&c->input);
	close_one(c, (uv_handle_t *)&c->output);
	close_one(c, (uv_handle_t *)&c->timer);
	begin_next(all);
}

/* Only a refusal has a reason that is waited for. */
static void decide(struct check *c)
{
	struct job *job = c->job;

	if (!c->has_exited || (c->status != 0 && !c->output_ended) || list_is_empty(&c->link))
		return;
	c->reason[strcspn(c->reason, "\r\n")] = '\0';
	if (job->state != JOB_CHECKING)
		; /* cancelled meanwhile */
	else if (c->is_late)
		job_fail(job, 403, HOTCELL_ERROR_UNAVAILABLE,
			"the check of this service took too long");
	else if (c->status == 0)
		job_let_through(job);
	else
		job_fail(job, 403, HOTCELL_ERROR_INPUT, "refused: %s",
			*c->reason ? c->reason : "the check of this service gave no reason");
	end(c);
}

static void on_exit_(uv_process_t *process, int64_t status, int signal)
{
	struct check *c = process->data;

	c->has_exited = true;
	c->status = signal ? 128 + signal : status;
	decide(c);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
	static char scratch[4096];
	struct check *c = handle->data;

	(void)wanted;
	/* What is too long is read, and forgotten. */
	*ret = c->reason_len < REASON_MAX ? uv_buf_init(c->reason + c->reason_len,
						    (unsigned)(REASON_MAX - c->reason_len)) :
					    uv_buf_init(scratch, sizeof(scratch));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct check *c = stream->data;

	if (n > 0 && buf->base == c->reason + c->reason_len)
		c->reason_len += (size_t)n;
	if (n >= 0)
		return;
	uv_read_stop(stream);
	c->output_ended = true;
	decide(c);
}

static void on_late(uv_timer_t *timer)
{
	struct check *c = timer->data;

	c->is_late = !c->has_exited;
	c->output_ended = true; /* whatever it has started may hold it open */
	uv_read_stop((uv_stream_t *)&c->output);
	if (!c->has_exited)
		uv_process_kill(&c->process, SIGKILL);
	decide(c);
}

static void on_written(uv_write_t *write, int status)
{
	struct check *c = write->data;

	(void)status; /* one that decides without reading is free to */
	if (!uv_is_closing((uv_handle_t *)&c->input))
		uv_close((uv_handle_t *)&c->input, on_closed);
}

static void init_handles(struct check *c, uv_loop_t *loop)
{
	uv_pipe_init(loop, &c->input, 0);
	uv_pipe_init(loop, &c->output, 0);
	uv_timer_init(loop, &c->timer);
	c->process.data = c->input.data = c->output.data = c->timer.data = c->write.data = c;
	c->open = 4;
}

static void ask(struct job *job)
{
	struct check *c = xalloc(sizeof(*c));
	struct checks *all = &job->service->checks;
	const struct config *config = job->service->config;
	char *argv[] = { config->check, NULL };
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
	static char lang[] = "LANG=C.UTF-8";
	char *environment[] = { path, lang, NULL };
	uv_stdio_container_t streams[3] = {
		{ .flags = UV_CREATE_PIPE | UV_READABLE_PIPE,
			.data.stream = (uv_stream_t *)&c->input },
		{ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
			.data.stream = (uv_stream_t *)&c->output },
		{ .flags = UV_IGNORE },
	};
	uv_process_options_t options = {
		.exit_cb = on_exit_,
		.file = config->check,
		.args = argv,
		.env = environment,
		.stdio = streams,
		.stdio_count = 3,
	};
	uv_buf_t line;
	int failed;

	c->job = job;
	job->references++;
	list_init(&c->link);
	list_add_last(&all->going_on, &c->link);
	all->going_on_count++;
	init_handles(c, job->service->loop);
	failed = uv_spawn(job->service->loop, &c->process, &options);
	if (failed) {
		log_error("check.failed", { "text", .text = uv_strerror(failed) });
		c->has_exited = c->output_ended = true;
		c->status = 1;
		snprintf(c->reason, sizeof(c->reason),
			"the check of this service could not be started");
		decide(c);
		return;
	}
	c->request = describe(job);
	line = uv_buf_init(c->request, (unsigned)strlen(c->request));
	uv_write(&c->write, (uv_stream_t *)&c->input, &line, 1, on_written);
	uv_read_start((uv_stream_t *)&c->output, on_alloc, on_read);
	uv_timer_start(&c->timer, on_late, config->check_timeout_ms, 0);
}

static void take_out(struct checks *all, struct job *job)
{
	list_remove(&job->link);
	all->waiting_count--;
}

static void begin_next(struct checks *all)
{
	while (!list_is_empty(&all->waiting)) {
		struct job *job = container_of(all->waiting.next, struct job, link);

		if (all->going_on_count >= job->service->admission.running_max)
			return;
		take_out(all, job);
		ask(job);
	}
}

void check_begin(struct job *job)
{
	struct checks *all = &job->service->checks;

	if (all->going_on_count && all->waiting_count >= job->service->admission.queue_max) {
		job->service->metrics.refused++;
		job_fail(job, 429, HOTCELL_ERROR_LIMIT,
			"%u runs are waiting already; try again later", all->waiting_count);
		return;
	}
	list_add_last(&all->waiting, &job->link);
	all->waiting_count++;
	begin_next(all);
}

void check_forget(struct job *job)
{
	if (!list_is_empty(&job->link))
		take_out(&job->service->checks, job);
}

void checks_open(struct checks *all)
{
	list_init(&all->going_on);
	list_init(&all->waiting);
}

void checks_close(struct checks *all)
{
	while (!list_is_empty(&all->waiting))
		take_out(all, container_of(all->waiting.next, struct job, link));
	while (!list_is_empty(&all->going_on)) {
		struct check *c = container_of(all->going_on.next, struct check, link);

		if (!c->has_exited)
			uv_process_kill(&c->process, SIGKILL);
		end(c);
	}
}
