#include "daemon/daemon.h"

#include "api/api.h"
#include "api/openapi.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/prompt.h"
#include "service/service.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	EXIT_TROUBLE = 125,
	READY_LOOK_MS = 100,
	DRAIN_LOOK_MS = 50,
	FIRST_WORD_MS = 250,
	/* For what was broken off: a cell that does not obey is killed after two seconds, and answers take a moment. */
	LAST_WORD_MS = 3000,
};

/* A socket on the loop. */
struct door {
	struct http *http;
	uv_poll_t poll;
	uv_timer_t timer;
};

struct daemon {
	const struct daemon_start *start;
	uv_loop_t loop;
	struct service service;
	struct api api;
	struct door doors[LISTENERS_MAX];
	unsigned doors_count;
	uv_prepare_t before_wait;
	uv_signal_t signals[2];
	uv_timer_t look;    /* whether it is ready, or drained */
	uv_poll_t settings; /* that the supervisor sends */
	int64_t drain_began_ms;
	int64_t drain_ends_ms;
	bool is_late; /* what did not end in that time was broken off */
	int status;
};

/* ---- HTTP on the loop ---- */

static void on_door(uv_poll_t *poll, int status, int events)
{
	struct door *door = poll->data;

	(void)status;
	(void)events;
	http_run(door->http);
}

static void on_door_time(uv_timer_t *timer)
{
	struct door *door = timer->data;

	http_run(door->http);
}

/* Replies that were made in this round go out before it waits. Meanwhile requests may be served whose effects answer
 * others, at any door: the times are asked for when all have been to it. */
static void on_before_wait(uv_prepare_t *prepare)
{
	struct daemon *d = prepare->data;

	for (unsigned i = 0; i < d->doors_count; i++) {
		if (http_timeout_ms(d->doors[i].http) == 0)
			http_flush(d->doors[i].http);
	}
	for (unsigned i = 0; i < d->doors_count; i++) {
		struct door *door = &d->doors[i];
		int ms = http_timeout_ms(door->http);

		if (ms < 0)
			uv_timer_stop(&door->timer);
		else
			uv_timer_start(&door->timer, on_door_time, (uint64_t)ms, 0);
	}
}

static int open_door(struct daemon *d, const struct listener *listener, struct err *e)
{
	struct door *door = &d->doors[d->doors_count];
	const struct config *c = d->service.config;
	struct http_options options = {
		.listen_fd = listener->fd,
		.is_local = listener->is_local,
		.connections_max = (unsigned)c->connections_max,
		.idle_s = (unsigned)c->connection_idle_s,
		.body_max = (size_t)c->request_bytes_max,
	};

	api_handlers(&d->api, &options.handlers);
	if (http_open(&options, &door->http, e))
		return -1;
	uv_poll_init(&d->loop, &door->poll, http_fd(door->http));
	uv_timer_init(&d->loop, &door->timer);
	door->poll.data = door->timer.data = door;
	uv_poll_start(&door->poll, UV_READABLE, on_door);
	d->doors_count++;
	return 0;
}

/* ---- the end ---- */

static void close_handle(uv_handle_t *handle, void *context)
{
	(void)context;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static bool has_exchanges(const struct daemon *d)
{
	for (unsigned i = 0; i < d->doors_count; i++)
		if (http_exchanges(d->doors[i].http))
			return true;
	return false;
}

/* Whoever was let in at the last moment may not have said anything yet, and would have been better off with the next
 * daemon. */
static bool may_hear_from_somebody(const struct daemon *d)
{
	if (!d->start->is_handed || (int64_t)uv_now(&d->loop) > d->drain_began_ms + FIRST_WORD_MS)
		return false;
	for (unsigned i = 0; i < d->doors_count; i++)
		if (http_connections(d->doors[i].http))
			return true;
	return false;
}

static void stop(struct daemon *d)
{
	for (unsigned i = 0; i < d->doors_count; i++) {
		uv_poll_stop(&d->doors[i].poll);
		http_close(d->doors[i].http);
	}
	d->doors_count = 0;
	uv_prepare_stop(&d->before_wait);
	service_close(&d->service);
	openapi_forget(&d->api);
	uv_walk(&d->loop, close_handle, NULL);
}

static bool is_drained(const struct daemon *d)
{
	return service_is_idle(&d->service) && !has_exchanges(d) && !may_hear_from_somebody(d);
}

static void on_draining(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	int64_t now_ms = (int64_t)uv_now(&d->loop);

	if (!is_drained(d) && now_ms <= d->drain_ends_ms + (d->is_late ? LAST_WORD_MS : 0))
		return;
	if (!is_drained(d) && !d->is_late) {
		d->is_late = true;
		service_break_off(&d->service);
		return;
	}
	log_info("daemon.ending", { "late", .number = d->is_late });
	stop(d);
}

/* It goes on listening: whoever asks for a run is told, and /readyz too. But where somebody else keeps the sockets, who
 * connects from now on is the next daemon's. */
static void on_end_signal(uv_signal_t *handle, int number)
{
	struct daemon *d = handle->data;

	(void)number;
	if (d->service.is_draining)
		return;
	log_info("daemon.draining", { "seconds", .number = (int64_t)d->service.config->drain_s });
	service_drain(&d->service);
	for (unsigned i = 0; d->start->is_handed && i < d->doors_count; i++)
		http_stop_listening(d->doors[i].http);
	d->drain_began_ms = (int64_t)uv_now(&d->loop);
	d->drain_ends_ms = d->drain_began_ms + (int64_t)d->service.config->drain_s * 1000;
	uv_timer_start(&d->look, on_draining, 0, DRAIN_LOOK_MS);
}

/* SIGHUP: the supervisor has read the settings again. Languages are, too. */
static void on_settings(uv_poll_t *poll, int status, int events)
{
	struct daemon *d = poll->data;
	struct config *c = NULL;
	struct err e = { 0 };

	(void)status;
	(void)events;
	if (supervisor_take_settings(d->start->settings_fd, &c, &e)) {
		if (e.kind == ERR_GONE) {
			uv_poll_stop(poll); /* and so are we, in a moment */
			return;
		}
		log_error("daemon.reload_failed", { "text", .text = e.text });
		supervisor_tell_ready(d->start->control_fd);
		return;
	}
	log_info("daemon.reloading", { "what", .text = "settings and languages" });
	service_set_config(&d->service, c);
	openapi_forget(&d->api);
	log_setup(c->log_level, c->log_format);
	if (engines_reload(&d->service, &e))
		log_error("daemon.reload_failed", { "text", .text = e.text });
	supervisor_tell_ready(d->start->control_fd);
}

/* ---- the beginning ---- */

static void on_ready_look(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	if (*service_not_ready(&d->service))
		return;
	uv_timer_stop(timer);
	log_info("daemon.ready", { "pid", .number = (int64_t)getpid() });
}

static int start_warden(
	void *context, const char *isolation, int *ret_socket, struct hotcell_error *error)
{
	struct daemon *d = context;
	struct err e = { 0 };

	if (supervisor_ask_warden(d->start->control_fd, isolation, ret_socket, &e) == 0)
		return 0;
	error->kind = (enum hotcell_error_kind)e.kind;
	snprintf(error->text, sizeof(error->text), "%s", e.text);
	return -1;
}

static void watch_signal(struct daemon *d, int index, int number, uv_signal_cb handler)
{
	uv_signal_init(&d->loop, &d->signals[index]);
	d->signals[index].data = d;
	uv_signal_start(&d->signals[index], handler, number);
}

/* Whoever reaches it from elsewhere must have a key. */
static int check_keys(const struct daemon *d, struct err *e)
{
	const struct daemon_start *start = d->start;

	if (start->is_loopback || start->config->no_auth || store_has_keys(d->service.store))
		return 0;
	return err_set(e, ERR_INPUT,
		"host = '%s': that is not this machine alone, and there are no keys; make one (hotcell keys "
		"add NAME), or say --no-auth",
		start->config->host);
}

static int begin(struct daemon *d, struct err *e)
{
	char share[32];
	struct service_options options = {
		.loop = &d->loop,
		.config = d->start->config,
		.share_dir = share,
		.start_warden = start_warden,
		.has_kvm = d->start->has_kvm,
		.context = d,
	};

	snprintf(share, sizeof(share), "/proc/self/fd/%d", d->start->share_fd);
	uv_prepare_init(&d->loop, &d->before_wait);
	uv_timer_init(&d->loop, &d->look);
	d->before_wait.data = d->look.data = d;
	if (service_open(&options, &d->service, e) || check_keys(d, e))
		return -1;
	d->api = (struct api){
		.service = &d->service,
		.is_loopback = d->start->is_loopback,
		.is_guarded = d->start->is_guarded,
		.owner_uid = d->start->owner_uid,
	};
	for (unsigned i = 0; i < d->start->listeners_count; i++)
		if (open_door(d, &d->start->listeners[i], e))
			return -1;
	watch_signal(d, 0, SIGTERM, on_end_signal);
	watch_signal(d, 1, SIGINT, on_end_signal);
	signal(SIGHUP, SIG_IGN); /* the supervisor's */
	uv_poll_init(&d->loop, &d->settings, d->start->settings_fd);
	d->settings.data = d;
	uv_poll_start(&d->settings, UV_READABLE, on_settings);
	uv_prepare_start(&d->before_wait, on_before_wait);
	uv_timer_start(&d->look, on_ready_look, 0, READY_LOOK_MS);
	supervisor_tell_ready(d->start->control_fd);
	return 0;
}

int daemon_run(const struct daemon_start *start)
{
	struct daemon *d = xalloc(sizeof(*d));
	struct err e = { 0 };
	int status;

	d->start = start;
	prompt_ask(); /* cells compute, and all of them wait for us */
	signal(SIGPIPE, SIG_IGN);
	uv_loop_init(&d->loop);
	if (begin(d, &e)) {
		log_error("serve.failed", { "text", .text = e.text });
		/* Half of it is there, and the kernel knows best how to put that away. */
		_exit(EXIT_TROUBLE);
	}
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_loop_close(&d->loop);
	status = d->status;
	free(d);
	return status;
}
