#include "service/check.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "service/job.h"
#include "service/service.h"
#include "service/summary.h"
#include "wire/limits.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { REASON_MAX = 400 };

struct check {
	struct list link;
	struct job *job;
	uv_poll_t process; /* of its pidfd */
	int pid_fd;        /* -1: it was not started */
	uv_pipe_t input;
	uv_pipe_t output;
	uv_timer_t timer;
	uv_write_t write;
	char *request;
	char reason[REASON_MAX + 1];
	size_t reason_len;
	int status;
	int signal; /* that ended it, or 0 */
	bool has_exited;
	bool output_ended;
	bool is_late;
	unsigned open; /* handles */
};

/* ---- what it is told ---- */

static json_t *text_or_null(const char *text, size_t len)
{
	return text ? json_stringn_nocheck(text, len) : json_null();
}

static json_t *words(char **list)
{
	json_t *o = json_array();

	for (; list && *list; list++)
		json_array_append_new(o, json_string_nocheck(*list));
	return o;
}

static json_t *settings(char **list)
{
	json_t *o = json_object();

	for (; list && *list; list++) {
		auto_free char *name = xstrdup(*list);
		char *equals = strchr(name, '=');

		*equals = '\0';
		json_object_set_new_nocheck(o, name, json_string_nocheck(equals + 1));
	}
	return o;
}

/* A file of a request may be the program: it is shown as it was sent. */
static json_t *file(const struct spec_file *f)
{
	json_t *o = json_pack("{s:s%}", "path", f->path, strlen(f->path));
	auto_buf struct buf encoded = { 0 };

	if (f->host_path) {
		json_object_set_new(o, "file_id", json_string(strrchr(f->host_path, '/') + 1));
	} else if (utf8_valid(f->data, f->data_len)) {
		json_object_set_new(o, "content", json_stringn_nocheck(f->data, f->data_len));
	} else {
		base64_encode(f->data, f->data_len, &encoded);
		json_object_set_new(o, "content_base64", json_stringn(encoded.data, encoded.len));
	}
	return o;
}

static json_t *files(const struct spec *spec)
{
	json_t *o = json_array();

	for (size_t i = 0; i < spec->files_count; i++)
		json_array_append_new(o, file(&spec->files[i]));
	return o;
}

static json_t *number(uint64_t asked, uint64_t by_default)
{
	return json_integer((json_int_t)(asked ? asked : by_default));
}

/* What holds for the run, asked for or not. */
static json_t *limits(const struct job *job)
{
	const struct hotcell_limits *l = &job->spec.limits;
	const struct hotcell_limits *usual = &job->service->limits;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_ms",
		number(l->cpu_ms, usual->cpu_ms), "memory_bytes",
		number(l->memory_bytes, usual->memory_bytes), "processes",
		number(l->processes, usual->processes), "disk_bytes",
		number(l->disk_bytes, usual->disk_bytes), "output_bytes",
		number(l->output_bytes, limit_table[LIMIT_OUTPUT_BYTES].by_default), "cpus",
		l->cpus_milli ? json_real((double)l->cpus_milli / 1000) : json_null());
}

static char *describe(const struct job *job)
{
	static const char *const isolations[] = {
		[HOTCELL_ISOLATION_AUTO] = "auto",
		[HOTCELL_ISOLATION_PROCESS] = "process",
		[HOTCELL_ISOLATION_CONTAINER] = "container",
		[HOTCELL_ISOLATION_VM] = "vm",
	};
	const struct spec *spec = &job->spec;
	json_t *o = summary_json(job);
	char *text;

	json_object_set_new(o, "owner", json_string(job->caller.owner));
	json_object_set_new(o, "code", text_or_null(spec->code, spec->code_len));
	json_object_set_new(o, "stdin", text_or_null(spec->stdin_data, spec->stdin_len));
	json_object_set_new(o, "entry_point", spec->entry ? json_string(spec->entry) : json_null());
	json_object_set_new(o, "profile", spec->profile ? json_string(spec->profile) : json_null());
	json_object_set_new(o, "args", words(spec->args));
	json_object_set_new(o, "env", settings(spec->env));
	json_object_set_new(o, "files", files(spec));
	json_object_set_new(o, "isolation", json_string(isolations[spec->isolation]));
	json_object_set_new(
		o, "network", json_string(spec->network == HOTCELL_NETWORK_HOST ? "host" : "none"));
	json_object_set_new(
		o, "timeout_ms", number(spec->limits.wall_ms, job->service->limits.wall_ms));
	json_object_set_new(o, "limits", limits(job));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* ---- asking it ---- */

static void on_closed(uv_handle_t *handle)
{
	struct check *c = handle->data;

	if (--c->open)
		return;
	job_release(c->job);
	if (c->pid_fd >= 0)
		close(c->pid_fd);
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
	if (c->pid_fd >= 0)
		close_one(c, (uv_handle_t *)&c->process);
	close_one(c, (uv_handle_t *)&c->input);
	close_one(c, (uv_handle_t *)&c->output);
	close_one(c, (uv_handle_t *)&c->timer);
	begin_next(all);
}

/* The client is told that it was refused; that the program needs looking after is for whoever runs the service. */
static void tell_trouble(const struct check *c)
{
	if (c->is_late)
		log_error("check.late", { "id", .text = c->job->id });
	else if (c->signal)
		log_error("check.crashed", { "id", .text = c->job->id },
			{ "signal", .number = c->signal });
}

/* Only a refusal has a reason that is waited for. */
static void decide(struct check *c)
{
	struct job *job = c->job;

	if (!c->has_exited || (c->status != 0 && !c->output_ended) || list_is_empty(&c->link))
		return;
	c->reason[strcspn(c->reason, "\r\n")] = '\0';
	tell_trouble(c);
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

static void on_exited(uv_poll_t *process, int status, int events)
{
	struct check *c = process->data;
	siginfo_t info = { 0 };

	(void)status, (void)events;
	if (waitid(P_PIDFD, (id_t)c->pid_fd, &info, WEXITED | WNOHANG | __WALL) || !info.si_pid)
		return;
	uv_poll_stop(process);
	c->has_exited = true;
	c->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
	c->status = c->signal ? 128 + c->signal : info.si_status;
	decide(c);
}

static void kill_it(const struct check *c)
{
	if (!c->has_exited && c->pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, c->pid_fd, SIGKILL, NULL, 0);
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
	kill_it(c);
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
	c->pid_fd = -1;
	c->open = 3;
}

/* It dies with us: what we no longer ask for is nobody's. */
static int start(struct check *c, const char *program, struct err *e)
{
	static const char *const environment[] = { "PATH=/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8", NULL };
	int input[2];
	int output[2];
	int failed;

	if (pipe2(input, O_CLOEXEC))
		return err_sys(e, "pipe");
	if (pipe2(output, O_CLOEXEC)) {
		close(input[0]);
		close(input[1]);
		return err_sys(e, "pipe");
	}
	failed = spawn_filter(program, environment, input[0], output[1], &c->pid_fd, e);
	close(input[0]);
	close(output[1]);
	uv_pipe_open(&c->input, input[1]);
	uv_pipe_open(&c->output, output[0]);
	if (failed) {
		c->pid_fd = -1;
		return -1;
	}
	uv_poll_init(c->input.loop, &c->process, c->pid_fd);
	uv_poll_start(&c->process, UV_READABLE, on_exited);
	c->open++;
	return 0;
}

static void ask(struct job *job)
{
	struct check *c = xalloc(sizeof(*c));
	struct checks *all = &job->service->checks;
	const struct config *config = job->service->config;
	struct err e = { 0 };
	uv_buf_t line;

	c->job = job;
	job->references++;
	list_init(&c->link);
	list_add_last(&all->going_on, &c->link);
	all->going_on_count++;
	init_handles(c, job->service->loop);
	if (start(c, config->check, &e)) {
		log_error("check.failed", { "id", .text = job->id }, { "text", .text = e.text });
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

		kill_it(c);
		end(c);
	}
}
