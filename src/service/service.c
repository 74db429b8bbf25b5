#include "service/service.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "service/job.h"

#include <string.h>
#include <sys/time.h>

enum { SECOND_MS = 1000, LOST_KEPT_S = 7 * 86400 };

double service_now_s(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	return (double)now.tv_sec + (double)now.tv_usec / 1e6;
}

static void on_second(uv_timer_t *timer)
{
	struct service *s = timer->data;

	engines_mend(s);
	pools_tick(&s->pools);
	admission_tick(&s->admission);
	runs_tick(&s->runs);
	sessions_tick(&s->sessions);
	if (++s->seconds % 10 == 0)
		store_expire_files(s->store);
	if (s->seconds % 600 == 0) {
		store_trim_runs(s->store, s->config->history_max);
		store_forget_sessions(s->store, service_now_s() - LOST_KEPT_S);
	}
}

static void on_store(uv_poll_t *poll, int status, int events)
{
	struct service *s = poll->data;

	(void)status;
	(void)events;
	store_dispatch(s->store);
}

/* What a run has that asks for nothing. */
void service_default_limits(const struct config *c, struct hotcell_limits *ret)
{
	*ret = (struct hotcell_limits){
		.wall_ms = c->timeout_default_ms,
		.cpu_ms = c->cpu_default_ms,
		.memory_bytes = c->memory_default_bytes,
		.processes = c->processes_default,
		.disk_bytes = c->disk_default_bytes,
		.file_bytes = c->file_max_bytes,
	};
}

static uint64_t beyond(uint64_t value, uint64_t usual)
{
	return value == usual ? 0 : value;
}

struct hotcell_limits service_limits_beyond(const struct service *s, const struct hotcell_limits *l)
{
	const struct hotcell_limits *usual = &s->limits;

	return (struct hotcell_limits){
		.wall_ms = beyond(l->wall_ms, usual->wall_ms),
		.cpu_ms = beyond(l->cpu_ms, usual->cpu_ms),
		.memory_bytes = beyond(l->memory_bytes, usual->memory_bytes),
		.processes = beyond(l->processes, usual->processes),
		.disk_bytes = beyond(l->disk_bytes, usual->disk_bytes),
		.file_bytes = beyond(l->file_bytes, usual->file_bytes),
		.open_files = l->open_files,
		.cpus_milli = l->cpus_milli,
		.output_bytes = l->output_bytes,
	};
}

int service_open(const struct service_options *options, struct service *s, struct err *e)
{
	*s = (struct service){
		.loop = options->loop,
		.config = options->config,
		.start_warden = options->start_warden,
		.has_kvm = options->has_kvm,
		.share_dir = xstrdup(options->share_dir),
		.context = options->context,
	};
	if (store_open(s->config->state_dir, &s->store, e) ||
		store_lose_sessions(s->store, "the service was started again",
			service_now_s() - LOST_KEPT_S, e))
		return -1;
	admission_open(&s->admission, s);
	pools_open(&s->pools, s);
	service_default_limits(s->config, &s->limits);
	sessions_open(&s->sessions, s);
	runs_open(&s->runs, s);
	cache_open(&s->cache);
	checks_open(&s->checks);
	uv_poll_init(s->loop, &s->store_poll, store_fd(s->store));
	uv_timer_init(s->loop, &s->second);
	s->store_poll.data = s->second.data = s;
	uv_poll_start(&s->store_poll, UV_READABLE, on_store);
	uv_timer_start(&s->second, on_second, SECOND_MS, SECOND_MS);
	return engines_open(s, e);
}

void service_set_config(struct service *s, struct config *config)
{
	struct config *old = s->own_config;

	config_keep_places(s->config, config);
	s->config = s->own_config = config;
	admission_set_limits(&s->admission);
	service_default_limits(config, &s->limits);
	config_free(old);
}

void service_drain(struct service *s)
{
	s->is_draining = true;
}

void service_break_off(struct service *s)
{
	runs_cancel_all(&s->runs);
}

bool service_is_idle(const struct service *s)
{
	return s->admission.running == 0 && s->admission.queued == 0 && store_queued(s->store) == 0;
}

const char *service_not_ready(struct service *s)
{
	if (s->is_draining)
		return "it is about to end";
	if (!s->engines.current->is_warm)
		return "it is getting warm";
	if (!hotcell_is_well(s->engines.current->hotcell))
		return "a warden is gone, and another one is being started";
	if (!pools_are_warm(&s->pools))
		return "its pools are being filled";
	return "";
}

void service_close(struct service *s)
{
	sessions_close(&s->sessions);
	checks_close(&s->checks);
	runs_abandon_all(&s->runs);
	pools_close(&s->pools);
	cache_close(&s->cache);
	runs_close(&s->runs);
	admission_close(&s->admission);
	engines_close(s);
	uv_close((uv_handle_t *)&s->store_poll, NULL);
	uv_close((uv_handle_t *)&s->second, NULL);
	store_close(s->store);
	map_free(&s->sessions.lost);
	metrics_close(&s->metrics);
	free(s->share_dir);
	config_free(s->own_config);
}
