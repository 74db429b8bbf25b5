/* head: the request line and the headers.
 *
 * Whoever stands in front of us may read a request in another way than we do, and what it thinks to be a body would be a
 * request here. So all that can be read in two ways is refused, also where RFC 9112 lets a server be generous: lines end
 * in CRLF, there is one space where one belongs, no folded lines, no control characters, one Content-Length. */
#include "http/inner.h"

#include "base/own.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- how much of it is there ---- */

static bool is_token_char(unsigned char c)
{
	return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Empty lines before a request: some clients of old send one behind a body. */
static void skip_empty_lines(struct conn *conn)
{
	while (conn->line_at == 0 && conn->in.len - conn->in_at >= 2 &&
		memcmp(conn->in.data + conn->in_at, "\r\n", 2) == 0) {
		conn->in_at += 2;
		conn->scanned = 0;
	}
}

static enum head how_long(const struct conn *conn)
{
	return conn->lines ? HEAD_LONG : HEAD_LONG_TARGET;
}

/* What has been looked at is not looked at again: a head that comes byte by byte costs no more. */
enum head head_scan(struct conn *conn, size_t *ret_len)
{
	const char *text;
	const char *end;
	size_t len;

	skip_empty_lines(conn);
	if (conn->in_at == conn->in.len)
		return HEAD_PARTIAL;
	text = conn->in.data + conn->in_at;
	len = conn->in.len - conn->in_at;
	if (text[0] != '\r' && !is_token_char((unsigned char)text[0]))
		return HEAD_MALFORMED; /* no HTTP: perhaps the greeting of TLS, which has no lines to wait for */
	while (len > conn->scanned &&
		(end = memchr(text + conn->scanned, '\n', len - conn->scanned))) {
		size_t at = (size_t)(end - text);

		if (at >= HEAD_MAX)
			return how_long(conn);
		if (at == conn->line_at || text[at - 1] != '\r')
			return HEAD_MALFORMED;
		if (at == conn->line_at + 1) {
			*ret_len = at + 1;
			return HEAD_WHOLE;
		}
		if (++conn->lines > HEADERS_MAX + 1)
			return HEAD_LONG;
		conn->scanned = conn->line_at = at + 1;
	}
	conn->scanned = len;
	return len > HEAD_MAX ? how_long(conn) : HEAD_PARTIAL;
}

bool head_has_begun(const struct conn *conn)
{
	return conn->in_at < conn->in.len && conn->in.data[conn->in_at] != '\r';
}

/* ---- what it says ---- */

bool head_is_token(const char *text)
{
	for (const char *at = text; *at; at++) {
		if (!is_token_char((unsigned char)*at))
			return false;
	}
	return *text;
}

bool head_is_value(const char *text)
{
	for (; *text; text++) {
		if (*text != '\t' && ((unsigned char)*text < 0x20 || *text == 0x7f))
			return false;
	}
	return true;
}

/* Ends the line at *at and moves on to the next. NULL if there is a NUL in it. */
static char *take_line(char **at, const char *end)
{
	char *line = *at;
	char *stop = memchr(line, '\n', (size_t)(end - line));

	*at = stop + 1;
	stop[-1] = '\0'; /* the CR */
	return line + strlen(line) == stop - 1 ? line : NULL;
}

/* Ends the word at *at and moves on to what is behind its space. NULL if there is no space. */
static char *take_word(char **at)
{
	char *word = *at;
	char *space = strchr(word, ' ');

	if (!space)
		return NULL;
	*space = '\0';
	*at = space + 1;
	return word;
}

static bool is_version(const char *text)
{
	return strncmp(text, "HTTP/", 5) == 0 && isdigit((unsigned char)text[5]) &&
	       text[6] == '.' && isdigit((unsigned char)text[7]) && text[8] == '\0';
}

static unsigned parse_request_line(struct http_exchange *x, char *line)
{
	char *method = line ? take_word(&line) : NULL;
	char *target = method ? take_word(&line) : NULL;
	char *mark;

	if (!target || !head_is_token(method) || !is_version(line))
		return 400;
	x->method = method;
	x->is_head = strcmp(method, "HEAD") == 0;
	x->target = target;
	mark = strchr(target, '?');
	if (mark) {
		*mark = '\0';
		x->query = mark + 1;
	}
	x->is_1_0 = strcmp(line, "HTTP/1.0") == 0;
	return x->is_1_0 || strcmp(line, "HTTP/1.1") == 0 ? 0 : 505;
}

static bool parse_header(struct http_exchange *x, char *line)
{
	char *colon = line ? strchr(line, ':') : NULL;
	char *value;
	size_t len;

	if (!colon)
		return false;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	len = strlen(value);
	while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	value[len] = '\0';
	if (!head_is_token(line) || !head_is_value(value))
		return false;
	x->headers[x->header_count++] = (struct header){ .name = line, .value = value };
	return true;
}

/* 0, 400 or 505. The last line of `text` is empty. */
static unsigned parse_lines(struct http_exchange *x, const char *text, size_t len)
{
	char *at = x->head = xalloc(len + 1);
	const char *end = x->head + len - 2;
	unsigned status;

	memcpy(x->head, text, len);
	x->headers =
		xalloc(x->conn->lines * sizeof(*x->headers)); /* one too many: the request line */
	status = parse_request_line(x, take_line(&at, end));
	while (at < end) {
		if (!parse_header(x, take_line(&at, end)))
			return 400;
	}
	return status;
}

static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };

static bool is_known_method(const char *method)
{
	for (size_t i = 0; i < COUNT(methods); i++) {
		if (strcmp(method, methods[i]) == 0)
			return true;
	}
	return false;
}

static bool is_visible(const char *text)
{
	for (; *text; text++) {
		if (*text <= ' ' || *text >= 0x7f || *text == '#')
			return false;
	}
	return true;
}

/* Printable ASCII without spaces, and all escapes good. */
static bool is_sound(const char *text)
{
	auto_buf struct buf decoded = { 0 };

	return is_visible(text) &&
	       (!strchr(text, '%') || http_decode(text, strlen(text), &decoded));
}

/* Whoever takes us for a proxy names the host before the path. It must be the one in the header: of two, somebody in
 * between may have looked at the other. */
static bool take_off_host(struct http_exchange *x)
{
	static const char scheme[] = "http://";
	const char *host = x->target + sizeof(scheme) - 1;
	const char *named = http_header(x, "Host");
	size_t len;

	if (strncasecmp(x->target, scheme, sizeof(scheme) - 1) != 0)
		return true;
	len = strcspn(host, "/");
	x->target = host[len] ? host + len : "/";
	return len && named && strlen(named) == len && strncasecmp(named, host, len) == 0;
}

/* An absolute path, and a query if there is one. */
static bool is_sound_target(const struct http_exchange *x)
{
	if (x->target[0] != '/' && strcmp(x->target, "*") != 0)
		return false;
	return is_sound(x->target) && (!x->query || is_sound(x->query));
}

/* A length that no limit allows, if it fits into no number. */
static bool parse_length(const char *text, uint64_t *ret)
{
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	if (errno)
		*ret = UINT64_MAX;
	return true;
}

/* What tells where the body ends must do so in one way only. */
static unsigned check_framing(struct http_exchange *x, const char **ret_why)
{
	unsigned lengths = http_header_count(x, "Content-Length");
	unsigned encodings = http_header_count(x, "Transfer-Encoding");

	if (lengths > 1 ||
		(lengths && !parse_length(http_header(x, "Content-Length"), &x->body_left))) {
		*ret_why = "Content-Length is malformed, or there is more than one.";
		return 400;
	}
	if (encodings && (lengths || x->is_1_0)) {
		*ret_why = "Transfer-Encoding does not go with Content-Length or HTTP/1.0.";
		return 400;
	}
	if (encodings > 1 ||
		(encodings && strcasecmp(http_header(x, "Transfer-Encoding"), "chunked") != 0)) {
		*ret_why = "This Transfer-Encoding is not supported: only chunked is.";
		return 501;
	}
	x->is_chunked = encodings;
	x->has_body = encodings || x->body_left;
	return 0;
}

/* Who asks, from where and with what is told once: of two, somebody in between may have looked at the other. */
static bool tells_twice(const struct http_exchange *x)
{
	static const char *const once[] = { "Authorization", "X-API-Key", "Origin",
		"Content-Type" };

	for (size_t i = 0; i < COUNT(once); i++)
		if (http_header_count(x, once[i]) > 1)
			return true;
	return false;
}

static unsigned check_rest(struct http_exchange *x, const char **ret_why)
{
	unsigned hosts = http_header_count(x, "Host");
	unsigned expects = http_header_count(x, "Expect");
	const char *coding = http_header(x, "Content-Encoding");

	if (hosts > 1 || (hosts == 0 && !x->is_1_0)) {
		*ret_why = "There must be one Host header.";
		return 400;
	}
	if (tells_twice(x)) {
		*ret_why =
			"There must be one Authorization, X-API-Key, Origin and Content-Type header at most.";
		return 400;
	}
	if (expects > 1 || (expects && strcasecmp(http_header(x, "Expect"), "100-continue") != 0)) {
		*ret_why = "This Expect is not supported: only 100-continue is.";
		return 417;
	}
	if (x->has_body && coding &&
		(strcasecmp(coding, "identity") != 0 ||
			http_header_count(x, "Content-Encoding") > 1)) {
		*ret_why = "This Content-Encoding is not supported: a body is sent as it is.";
		return 501;
	}
	if (!is_known_method(x->method)) {
		*ret_why = "This method is not supported.";
		return 501;
	}
	return 0;
}

/* Whether `value`, a list with commas, has that word. */
static bool lists(const char *value, const char *word)
{
	size_t word_len = strlen(word);

	for (const char *at = value; *at;) {
		size_t len = strcspn(at, ", \t");

		if (len == word_len && strncasecmp(at, word, len) == 0)
			return true;
		at += len;
		at += strspn(at, ", \t");
	}
	return false;
}

/* Behind a body in chunks nothing is read: what others may take for a part of it never becomes a request. */
static void find_out_whether_to_close(struct http_exchange *x)
{
	bool closes = x->is_chunked;

	for (unsigned i = 0; i < x->header_count; i++) {
		const struct header *header = &x->headers[i];

		if (strcasecmp(header->name, "Connection") != 0)
			continue;
		closes = closes || lists(header->value, "close");
		x->keeps_alive = x->keeps_alive || lists(header->value, "keep-alive");
	}
	x->must_close = closes || (x->is_1_0 && !x->keeps_alive);
}

unsigned head_parse(struct http_exchange *x, const char *text, size_t len, const char **ret_why)
{
	unsigned status = parse_lines(x, text, len);

	if (status) {
		*ret_why = status == 505 ?
				   "This version of HTTP is not supported: 1.1 and 1.0 are." :
				   "The request is malformed.";
		return status;
	}
	if (!take_off_host(x)) {
		*ret_why = "The request's target and its Host header name different hosts.";
		return 400;
	}
	if (!is_sound_target(x)) {
		*ret_why = "The request's target is malformed.";
		return 400;
	}
	status = check_framing(x, ret_why);
	if (!status)
		status = check_rest(x, ret_why);
	if (!status)
		find_out_whether_to_close(x);
	return status;
}

/* ---- what handlers ask for ---- */

const char *http_method(const struct http_exchange *x)
{
	return x->is_head ? "GET" : x->method;
}

bool http_is_head(const struct http_exchange *x)
{
	return x->is_head;
}

const char *http_path(const struct http_exchange *x)
{
	return x->target;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
	for (unsigned i = 0; i < x->header_count; i++) {
		if (strcasecmp(x->headers[i].name, name) == 0)
			return x->headers[i].value;
	}
	return NULL;
}

unsigned http_header_count(const struct http_exchange *x, const char *name)
{
	unsigned count = 0;

	for (unsigned i = 0; i < x->header_count; i++)
		count += strcasecmp(x->headers[i].name, name) == 0;
	return count;
}
