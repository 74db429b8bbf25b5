#include "cli/top.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/json.h"
#include "cli/metrics_text.h"

#include <stddef.h>
#include <string.h>

enum { PATIENCE_S = 5, METRICS_MAX = 20000 };

static const struct {
	const char *name;
	size_t field;
} numbers[] = {
	{ "hotcell_runs_running", offsetof(struct top_look, running) },
	{ "hotcell_runs_running_max", offsetof(struct top_look, running_max) },
	{ "hotcell_runs_queued", offsetof(struct top_look, queued) },
	{ "hotcell_runs_total", offsetof(struct top_look, ended) },
	{ "hotcell_runs_warm_total", offsetof(struct top_look, warm) },
	{ "hotcell_runs_cold_total", offsetof(struct top_look, cold) },
	{ "hotcell_runs_refused_total", offsetof(struct top_look, refused) },
	{ "hotcell_runs_failed_total", offsetof(struct top_look, failed) },
	{ "hotcell_runs_cached_total", offsetof(struct top_look, cached) },
	{ "hotcell_sessions", offsetof(struct top_look, sessions) },
	{ "hotcell_memory_bytes", offsetof(struct top_look, memory_bytes) },
};

static struct top_pool *find_pool(struct top_look *look, const struct metric *m)
{
	struct top_pool new = { 0 };
	struct top_pool *pool;

	snprintf(new.language, sizeof(new.language), "%s", metrics_text_label(m, "language"));
	snprintf(new.profile, sizeof(new.profile), "%s", metrics_text_label(m, "profile"));
	snprintf(new.isolation, sizeof(new.isolation), "%s", metrics_text_label(m, "isolation"));
	for (pool = look->pools; pool < look->pools + look->pools_count; pool++)
		if (strcmp(pool->language, new.language) == 0 &&
			strcmp(pool->profile, new.profile) == 0 &&
			strcmp(pool->isolation, new.isolation) == 0)
			return pool;
	if (look->pools_count == TOP_POOLS_MAX)
		return NULL;
	*pool = new;
	look->pools_count++;
	return pool;
}

static void take_pool(struct top_look *look, const struct metric *m)
{
	struct top_pool *pool = find_pool(look, m);

	if (pool && strcmp(metrics_text_label(m, "state"), "idle") == 0)
		pool->idle += m->value;
	else if (pool)
		pool->busy += m->value;
}

static json_t *as_json(const struct metric *m)
{
	json_t *labels = json_object();

	for (unsigned i = 0; i < m->labels_count; i++)
		json_object_set_new(labels, m->labels[i].name,
			json_text(m->labels[i].value, strlen(m->labels[i].value)));
	return json_pack("{s:s, s:o, s:f}", "name", m->name, "labels", labels, "value", m->value);
}

static void take_metric(struct top_look *look, const struct metric *m)
{
	if (json_array_size(look->metrics) < METRICS_MAX)
		json_array_append_new(look->metrics, as_json(m));
	if (strcmp(m->name, "hotcell_pool_cells") == 0)
		take_pool(look, m);
	for (size_t i = 0; i < COUNT(numbers); i++)
		if (strcmp(m->name, numbers[i].name) == 0)
			*(double *)(void *)((char *)look + numbers[i].field) += m->value;
}

static void read_metrics(struct top_look *look, const struct buf *text)
{
	const char *at = text->data;
	const char *end = at + text->len;
	struct metric m;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *line_end = newline ? newline : end;

		if (metrics_text_read(at, (size_t)(line_end - at), &m))
			take_metric(look, &m);
		at = line_end + 1;
	}
}

/* A list of objects, newest first; NULL if it cannot be had, which is no reason to show nothing. */
static json_t *get_list(struct client *c, const char *path, const char *name)
{
	struct client_request q = { .method = "GET", .path = path, .patience_s = PATIENCE_S };
	struct client_reply reply;
	struct err e;
	json_t *root;
	json_t *list;

	if (client_ask(c, &q, &reply, &e))
		return NULL;
	root = json_loadb(reply.body.data ? reply.body.data : "", reply.body.len, 0, NULL);
	client_reply_free(&reply);
	list = json_incref(json_object_get(root, name));
	json_decref(root);
	if (json_is_array(list))
		return list;
	json_decref(list);
	return NULL;
}

int top_look(struct client *c, struct top_look *ret, struct err *e)
{
	struct client_request q = { .method = "GET", .path = "/metrics", .patience_s = PATIENCE_S };
	struct client_reply reply;
	struct timespec now;

	*ret = (struct top_look){ 0 };
	if (client_ask(c, &q, &reply, e))
		return -1;
	ret->metrics = json_array();
	buf_add(&reply.body, "", 0);
	read_metrics(ret, &reply.body);
	client_reply_free(&reply);
	ret->runs = get_list(c, "/v1/runs?limit=100", "runs");
	ret->open_sessions = get_list(c, "/v1/sessions", "sessions");
	clock_gettime(CLOCK_REALTIME, &now);
	ret->when_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	ret->when_us = clock_now_us();
	return 0;
}

void top_look_free(struct top_look *look)
{
	json_decref(look->metrics);
	json_decref(look->runs);
	json_decref(look->open_sessions);
	*look = (struct top_look){ 0 };
}
