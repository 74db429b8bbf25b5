#include "cli/client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "cli/plain.h"
#include "cli/server.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CONNECT_MS = 10000,
	SILENCE_S = 60,
	BODY_MAX = 256 << 20,  /* of an answer that is kept whole */
	REFUSAL_MAX = 1 << 20, /* of one that says no */
	TOLD_MAX = 3,          /* complaints of one refusal */
};

struct client {
	struct server server;
	CURL *easy;
	CURLM *multi;
	int socket_fd; /* of the connection that was made last; curl's */
	int signal_fd;
	bool was_interrupted;
};

/* What is being asked. */
struct asking {
	struct client *client;
	const struct client_request *request;
	struct client_reply *reply;
	char *text; /* of a body that is JSON: there until all is over, as is */
	curl_mime *form;
	struct buf refusal;
	unsigned retry_after_s;
	bool has_failed;     /* in a call back: *e says why */
	int64_t deadline_us; /* 0: none */
	struct err *e;
};

/* ---- opening ---- */

static struct client *make(const struct server *server)
{
	struct client *c = xalloc(sizeof(*c));

	c->socket_fd = c->signal_fd = -1;
	c->server.name = xstrdup(server->name);
	c->server.base = xstrdup(server->base);
	c->server.socket_path = server->socket_path ? xstrdup(server->socket_path) : NULL;
	c->server.is_default = server->is_default;
	c->server.key = server->key ? xstrdup(server->key) : NULL;
	c->easy = curl_easy_init();
	c->multi = curl_multi_init();
	return c;
}

int client_open(const struct server_options *options, struct client **ret, struct err *e)
{
	struct server server;

	if (server_find(options, &server, e))
		return -1;
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		server_free(&server);
		return err_set(e, ERR_SYSTEM, "libcurl does not start");
	}
	*ret = make(&server);
	server_free(&server);
	if ((*ret)->easy && (*ret)->multi)
		return 0;
	client_free(take_ptr(ret));
	return err_set(e, ERR_SYSTEM, "libcurl does not start");
}

struct client *client_again(const struct client *c)
{
	return make(&c->server);
}

void client_free(struct client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->easy);
	curl_multi_cleanup(c->multi);
	server_free(&c->server);
	free(c);
}

const char *client_name(const struct client *c)
{
	return c->server.name;
}

void client_watch_signals(struct client *c, int signal_fd)
{
	c->signal_fd = signal_fd;
}

bool client_was_interrupted(const struct client *c)
{
	return c->was_interrupted;
}

/* ---- names in URLs ---- */

char *client_escape(const char *text, bool keep_slashes)
{
	struct buf b = { 0 };

	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		if (isalnum(*at) || strchr("-._~", *at) || (keep_slashes && *at == '/'))
			buf_add(&b, at, 1);
		else
			buf_addf(&b, "%%%02X", *at);
	buf_add(&b, "", 0);
	return buf_take(&b);
}

bool client_is_id(const char *text)
{
	size_t len = strlen(text);

	for (const char *at = text; *at; at++)
		if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_')
			return false;
	return len > 0 && len < CLIENT_ID_SIZE;
}

/* ---- what comes ---- */

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
	struct asking *a = context;
	size_t len = size * count;
	char text[256];
	char id[CLIENT_ID_SIZE];

	if (len >= sizeof(text))
		return len;
	memcpy(text, line, len);
	text[len] = '\0';
	/* A new answer begins: what an interim one said is void. */
	if (strncmp(text, "HTTP/", 5) == 0)
		a->reply->run_id[0] = '\0';
	if (strncasecmp(text, "X-Run-Id:", 9) == 0 && sscanf(text + 9, " %63s", id) == 1 &&
		client_is_id(id))
		strcpy(a->reply->run_id, id);
	if (strncasecmp(text, "Retry-After:", 12) == 0)
		a->retry_after_s = (unsigned)strtoul(text + 12, NULL, 10);
	return len;
}

static bool is_good(long status)
{
	return status >= 200 && status <= 299;
}

/* Anything but `len` ends the transfer. */
static size_t on_body(char *data, size_t size, size_t count, void *context)
{
	struct asking *a = context;
	struct buf *body = &a->refusal;
	size_t most = REFUSAL_MAX;
	size_t len = size * count;

	curl_easy_getinfo(a->client->easy, CURLINFO_RESPONSE_CODE, &a->reply->status);
	if (is_good(a->reply->status) && a->request->on_bytes) {
		a->has_failed = a->request->on_bytes(a->request->context, data, len, a->e) != 0;
		return a->has_failed ? 0 : len;
	}
	if (is_good(a->reply->status)) {
		body = &a->reply->body;
		most = BODY_MAX;
	}
	if (body->len + len > most) {
		a->has_failed = true;
		err_set(a->e, ERR_LIMIT, "the server's answer is larger than %zu MiB", most >> 20);
		return 0;
	}
	buf_add(body, data, len);
	return len;
}

static size_t on_read(char *data, size_t size, size_t count, void *context)
{
	struct asking *a = context;
	ssize_t n;

	do
		n = read(a->request->body_fd, data, size * count);
	while (n < 0 && errno == EINTR);
	return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

/* ---- who is there ---- */

static int on_socket(void *context, curl_socket_t fd, curlsocktype type)
{
	struct client *c = context;

	(void)type;
	c->socket_fd = fd;
	return CURL_SOCKOPT_OK;
}

/* Before anything is sent. A service may have ended since its place was looked at, and in /tmp somebody else may have made
 * the same place again: so the kernel is asked who listens. */
static int on_connected(void *context, char *their_ip, char *our_ip, int their_port, int our_port)
{
	struct asking *a = context;
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);

	(void)their_ip;
	(void)our_ip;
	(void)their_port;
	(void)our_port;
	if (getsockopt(a->client->socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
		(peer.uid == geteuid() || peer.uid == 0))
		return CURL_PREREQFUNC_OK;
	a->has_failed = true;
	err_set(a->e, ERR_INPUT,
		"%s: user %u listens there: nothing is sent to a service that is neither yours nor root's, unless --server names it",
		a->client->server.name, (unsigned)peer.uid);
	return CURL_PREREQFUNC_ABORT;
}

/* ---- what goes ---- */

/* The body that is neither a file nor a form. */
static void set_json(struct asking *a)
{
	CURL *easy = a->client->easy;

	a->text = json_dumps(a->request->json, JSON_COMPACT);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(a->text));
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, a->text);
}

static void set_form(struct asking *a)
{
	CURL *easy = a->client->easy;
	curl_mimepart *part;

	a->form = curl_mime_init(easy);
	part = curl_mime_addpart(a->form);
	curl_mime_name(part, "file");
	curl_mime_filename(part, a->request->part_name);
	curl_mime_type(part, "application/octet-stream");
	curl_mime_data_cb(part, (curl_off_t)a->request->body_size, on_read, NULL, NULL, a);
	curl_easy_setopt(easy, CURLOPT_MIMEPOST, a->form);
}

static void set_upload(struct asking *a)
{
	CURL *easy = a->client->easy;

	curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(easy, CURLOPT_READDATA, a);
	curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)a->request->body_size);
}

static struct curl_slist *make_headers(const struct client *c, const struct client_request *q)
{
	struct curl_slist *list = curl_slist_append(NULL, "Expect:");

	if (q->json)
		list = curl_slist_append(list, "Content-Type: application/json");
	else if (q->has_file && !q->part_name)
		list = curl_slist_append(list, "Content-Type: application/octet-stream");
	if (c->server.key) {
		auto_free char *line = xasprintf("Authorization: Bearer %s", c->server.key);

		list = curl_slist_append(list, line);
	}
	return list;
}

static void set_common(struct asking *a, const char *url, char *why)
{
	const struct client_request *q = a->request;
	CURL *easy = a->client->easy;

	curl_easy_reset(easy);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, q->method);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "hotcell/" HOTCELL_VERSION);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, a);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, a);
	if (!q->has_patience) {
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
			(long)(q->patience_s ? q->patience_s : SILENCE_S));
	}
	if (a->client->server.socket_path) {
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, a->client->server.socket_path);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	}
	if (a->client->server.is_default) {
		curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
		curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, a->client);
		curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
		curl_easy_setopt(easy, CURLOPT_PREREQDATA, a);
	}
}

/* ---- the transfer ---- */

/* A signal is there: whether to go on all the same. */
static bool may_go_on(struct asking *a)
{
	const struct client_request *q = a->request;
	struct signalfd_siginfo told;

	while (read(a->client->signal_fd, &told, sizeof(told)) == sizeof(told))
		;
	a->client->was_interrupted = true;
	if (!q->on_interrupt || !q->on_interrupt(q->context))
		return false;
	a->deadline_us = clock_now_us() + (int64_t)q->patience_s * 1000000;
	return true;
}

/* Until it is over. CURLE_ABORTED_BY_CALLBACK: we have ended it. */
static CURLcode transfer(struct asking *a)
{
	struct client *c = a->client;
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	const CURLMsg *message;
	bool goes_on = true;
	int running = 1;
	int left;

	curl_multi_add_handle(c->multi, c->easy);
	while (goes_on && curl_multi_perform(c->multi, &running) == CURLM_OK && running) {
		struct curl_waitfd signal = { .fd = c->signal_fd, .events = CURL_WAIT_POLLIN };

		curl_multi_poll(c->multi, &signal, c->signal_fd >= 0, 1000, NULL);
		if (c->signal_fd >= 0 && signal.revents)
			goes_on = may_go_on(a);
		if (a->deadline_us && clock_now_us() >= a->deadline_us)
			goes_on = false;
	}
	while ((message = curl_multi_info_read(c->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			result = message->data.result;
	curl_multi_remove_handle(c->multi, c->easy);
	return result;
}

/* ---- refusals ---- */

/* {"loc": ["body", "timeout_ms"], "msg": "…"} as "timeout_ms: …". */
static void add_complaint(struct buf *b, json_t *complaint)
{
	json_t *loc = json_object_get(complaint, "loc");
	const char *message = json_string_value(json_object_get(complaint, "msg"));
	bool is_first = true;

	for (size_t i = 1; i < json_array_size(loc); i++) {
		json_t *part = json_array_get(loc, i);

		if (json_is_string(part))
			buf_addf(b, "%s%s", is_first ? "" : ".", json_string_value(part));
		else if (json_is_integer(part))
			buf_addf(b, "[%lld]", (long long)json_integer_value(part));
		is_first = false;
	}
	buf_addf(b, "%s%s", is_first ? "" : ": ", message ? message : "it is not as it should be");
}

static void add_detail(struct buf *b, json_t *detail)
{
	if (json_is_string(detail)) {
		buf_add(b, json_string_value(detail), json_string_length(detail));
		return;
	}
	for (size_t i = 0; i < json_array_size(detail) && i < TOLD_MAX; i++) {
		if (i)
			buf_add_str(b, "; ");
		add_complaint(b, json_array_get(detail, i));
	}
	if (json_array_size(detail) > TOLD_MAX)
		buf_addf(b, "; and %zu more", json_array_size(detail) - TOLD_MAX);
}

/* In the server's words, in one line. */
static int tell_refusal(const struct asking *a, struct err *e)
{
	json_t *root = json_loadb(a->refusal.data ? a->refusal.data : "", a->refusal.len, 0, NULL);
	auto_buf struct buf words = { 0 };
	auto_buf struct buf plain = { 0 };
	long status = a->reply->status;
	enum err_kind kind = status == 404 ? ERR_NOT_FOUND : status < 500 ? ERR_INPUT : ERR_SYSTEM;

	add_detail(&words, json_object_get(root, "detail"));
	json_decref(root);
	if (!words.len)
		buf_addf(&words, "it answers with status %ld", status);
	if (a->retry_after_s)
		buf_addf(&words, " (try again in %u s)", a->retry_after_s);
	if (status == 401 && !a->client->server.key)
		buf_add_str(&words, " (give one with --key or HOTCELL_API_KEY)");
	plain_add(&plain, words.data, words.len);
	return err_set(e, kind, "%s", plain.data);
}

static int tell_failure(const struct asking *a, CURLcode code, const char *why, struct err *e)
{
	auto_free char *words = plain_text(*why ? why : curl_easy_strerror(code));
	long sys_errno = 0;

	if (a->has_failed)
		return -1;
	if (a->client->was_interrupted)
		return err_set(e, ERR_GONE, "interrupted");
	if (code == CURLE_OPERATION_TIMEDOUT && a->reply->status)
		return err_set(e, ERR_GONE, "%s: it is silent", a->client->server.name);
	curl_easy_getinfo(a->client->easy, CURLINFO_OS_ERRNO, &sys_errno);
	if (code == CURLE_COULDNT_CONNECT && sys_errno)
		return err_set(e, ERR_GONE, "%s cannot be reached: %s", a->client->server.name,
			strerror((int)sys_errno));
	return err_set(e, ERR_GONE, "%s: %s", a->client->server.name, words);
}

/* ---- all of it ---- */

int client_ask(
	struct client *c, const struct client_request *q, struct client_reply *ret, struct err *e)
{
	struct asking a = { .client = c, .request = q, .reply = ret, .e = e };
	auto_free char *url = xasprintf("%s%s", c->server.base, q->path);
	struct curl_slist *headers = make_headers(c, q);
	char why[CURL_ERROR_SIZE] = "";
	CURLcode code;
	int failed = 0;

	*ret = (struct client_reply){ 0 };
	set_common(&a, url, why);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers);
	if (q->json)
		set_json(&a);
	else if (q->has_file && q->part_name)
		set_form(&a);
	else if (q->has_file)
		set_upload(&a);
	code = transfer(&a);
	if (code == CURLE_OK)
		curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &ret->status);
	if (code != CURLE_OK)
		failed = tell_failure(&a, code, why, e);
	else if (!is_good(ret->status))
		failed = tell_refusal(&a, e);
	curl_slist_free_all(headers);
	curl_mime_free(a.form);
	free(a.text);
	buf_free(&a.refusal);
	if (failed)
		buf_free(&ret->body);
	return failed;
}

void client_reply_free(struct client_reply *reply)
{
	buf_free(&reply->body);
}

json_t *client_ask_json(
	struct client *c, const char *method, const char *path, json_t *body, struct err *e)
{
	struct client_request q = { .method = method, .path = path, .json = body };
	struct client_reply reply;
	json_t *value;

	if (client_ask(c, &q, &reply, e))
		return NULL;
	value = json_loadb(reply.body.data ? reply.body.data : "", reply.body.len, 0, NULL);
	client_reply_free(&reply);
	if (!json_is_object(value)) {
		json_decref(value);
		err_set(e, ERR_PROTOCOL, "%s: it does not answer as hotcell does", c->server.name);
		return NULL;
	}
	return value;
}

int client_tell(struct client *c, const char *method, const char *path, json_t *body, struct err *e)
{
	struct client_request q = { .method = method, .path = path, .json = body };
	struct client_reply reply;

	if (client_ask(c, &q, &reply, e))
		return -1;
	client_reply_free(&reply);
	return 0;
}
