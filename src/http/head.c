/* head: the request line and the headers.
 *
 * libmicrohttpd 0.9.75 is a generous reader. It takes LF for CRLF, any number of spaces in the request line, and NULs;
 * it joins a folded line to the *name* of the header before it; of two Content-Length it takes the first. Whoever
 * stands in front of us may read such a request in another way, and what it thinks to be a body would be a request
 * here. So all that can be read in two ways is refused.
 *
 * What it has parsed does not show most of this, but it parses in place: between the method's first byte and the end
 * of the header (whose size it tells) lie the bytes as they were sent, but with NULs in place of the separators. */
#include "http/inner.h"

#include "base/own.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
	READ_STEP = 1024,                /* by which its buffer grows at a time, or less */
	RECORD_BYTES = 64,               /* of a header, a field of the query, a cookie */
	ANSWER_HEADERS_BYTES = 4 * 1024, /* kept free */
};

static bool is_token_char(unsigned char c)
{
	return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_value_char(unsigned char c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool http_decode(const char *text, size_t len, struct buf *ret)
{
	size_t start = ret->len;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '%') {
			int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_digit(text[i + 2]);

			c = low < 0 ? '\0' : (char)(high * 16 + low);
			i += 2;
		}
		if (c == '\0') {
			ret->len = start;
			return false;
		}
		buf_add(ret, &c, 1);
	}
	buf_add(ret, "", 0);
	return true;
}

#if MHD_VERSION < 0x01000000
/* The lines of the header, which lie between `at` (behind the version) and `end`: NUL NUL for the CRLF of the line
 * before, then for each header its name, NUL, value, NUL NUL; and NUL NUL again. Returns how many headers there are, or
 * -1 if there is anything else: an LF alone leaves one NUL, and a NUL that was sent is one too many. */
static int count_lines(const unsigned char *at, const unsigned char *end)
{
	int count = 0;

	if (end - at < 2 || at[0] || at[1])
		return -1;
	for (at += 2; end - at > 2; count++) {
		const unsigned char *name = at;

		while (at < end && is_token_char(*at))
			at++;
		if (at == name || at == end || *at++)
			return -1;
		while (at < end && *at && is_value_char(*at))
			at++;
		if (end - at < 2 || at[0] || at[1])
			return -1;
		at += 2;
	}
	return end - at == 2 && !at[0] && !at[1] ? count : -1;
}

/* Whether the head was sent exactly as RFC 9112 wants it. */
static bool is_plain(
	const struct http_exchange *x, const char *method, const char *version, int count)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	size_t path_len = strlen(x->target);
	size_t target_len = path_len + (x->query ? 1 + strlen(x->query) : 0);
	const char *end = info ? method + info->header_size : method;

	if (version != method + strlen(method) + 1 + target_len + 1 ||
		end < version + strlen(version))
		return false;
	return count_lines((const unsigned char *)version + strlen(version),
		       (const unsigned char *)end) == count;
}
#else
/* From 1.0 on the library itself is strict, when told to be: see http_open(). */
static bool is_plain(
	const struct http_exchange *x, const char *method, const char *version, int count)
{
	(void)x, (void)method, (void)version, (void)count;
	return true;
}
#endif

struct counts {
	int all;
	unsigned hosts;
	unsigned lengths;
	unsigned encodings;
	unsigned codings;
	unsigned expects;
	const char *length;
	const char *encoding;
	const char *expect;
};

static enum MHD_Result count_header(
	void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct counts *c = cls;

	(void)kind;
	c->all++;
	if (strcasecmp(name, "host") == 0) {
		c->hosts++;
	} else if (strcasecmp(name, "content-length") == 0) {
		c->lengths++;
		c->length = value;
	} else if (strcasecmp(name, "transfer-encoding") == 0) {
		c->encodings++;
		c->encoding = value;
	} else if (strcasecmp(name, "content-encoding") == 0) {
		c->codings += strcasecmp(value, "identity") != 0;
	} else if (strcasecmp(name, "expect") == 0) {
		c->expects++;
		c->expect = value;
	}
	return MHD_YES;
}

static bool is_known_method(const char *method)
{
	static const char *const known[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE",
		"OPTIONS" };

	for (size_t i = 0; i < COUNT(known); i++) {
		if (strcmp(method, known[i]) == 0)
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

/* Printable ASCII without spaces, an absolute path; all escapes in the query good. Those of the path are looked at by
 * whoever takes it apart. */
static bool is_sound_target(const struct http_exchange *x)
{
	auto_buf struct buf decoded = { 0 };

	if (x->target[0] != '/' && strcmp(x->target, "*") != 0)
		return false;
	if (!is_visible(x->target) || (x->query && !is_visible(x->query)))
		return false;
	return !x->query || !strchr(x->query, '%') ||
	       http_decode(x->query, strlen(x->query), &decoded);
}

/* What tells where the body ends must do so in one way only. */
static unsigned check_framing(struct http_exchange *x, const struct counts *c, const char **ret_why)
{
	if (c->lengths > 1 ||
		(c->lengths && strspn(c->length, "0123456789") != strlen(c->length))) {
		*ret_why = "Content-Length is malformed, or there is more than one.";
		return 400;
	}
	if (c->encodings && (c->lengths || x->is_1_0)) {
		*ret_why = "Transfer-Encoding does not go with Content-Length or HTTP/1.0.";
		return 400;
	}
	if (c->encodings > 1 || (c->encodings && strcasecmp(c->encoding, "chunked") != 0)) {
		*ret_why = "This Transfer-Encoding is not supported: only chunked is.";
		return 501;
	}
	x->is_chunked = c->encodings > 0;
	x->has_body = x->is_chunked || (c->lengths && strspn(c->length, "0") != strlen(c->length));
	return 0;
}

/* libmicrohttpd keeps the head, a record for each thing in it, what came behind it and the answer's headers all in one
 * pool, and closes the connection without a word if the last do not fit: that is seen to in time. */
bool head_leaves_room(const struct http_exchange *x)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	int records = MHD_get_connection_values(
		x->mhd, MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND, NULL, NULL);
	const char *cookies = http_header(x, "Cookie");
	size_t used = info ? info->header_size + READ_STEP : 0;

	if (used < POOL_BYTES / 2)
		used = POOL_BYTES / 2; /* that much it reads at once */
	used += (size_t)records * RECORD_BYTES + (cookies ? strlen(cookies) : 0);
	return used <= POOL_BYTES - ANSWER_HEADERS_BYTES;
}

unsigned head_check(
	struct http_exchange *x, const char *method, const char *version, const char **ret_why)
{
	struct counts c = { 0 };
	unsigned status;

	MHD_get_connection_values(x->mhd, MHD_HEADER_KIND, count_header, &c);
	x->is_1_0 = strcmp(version, "HTTP/1.0") == 0;
	/* Until it is known to be in order, there may be anything behind it. */
	x->has_body = true;
	if (!is_plain(x, method, version, c.all)) {
		*ret_why = "The request is malformed.";
		return 400;
	}
	if (!is_sound_target(x)) {
		*ret_why = "The request's target is malformed.";
		return 400;
	}
	status = check_framing(x, &c, ret_why);
	if (status)
		return status;
	if (c.hosts > 1 || (c.hosts == 0 && !x->is_1_0)) {
		*ret_why = "There must be one Host header.";
		return 400;
	}
	if (c.expects > 1 || (c.expects && strcasecmp(c.expect, "100-continue") != 0)) {
		*ret_why = "This Expect is not supported: only 100-continue is.";
		return 417;
	}
	if (c.codings && x->has_body) {
		*ret_why = "This Content-Encoding is not supported: a body is sent as it is.";
		return 501;
	}
	if (!is_known_method(method)) {
		*ret_why = "This method is not supported.";
		return 501;
	}
	return 0;
}

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
	return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

struct named {
	const char *name;
	unsigned count;
};

static enum MHD_Result count_named(
	void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct named *n = cls;

	(void)kind, (void)value;
	n->count += strcasecmp(name, n->name) == 0;
	return MHD_YES;
}

unsigned http_header_count(const struct http_exchange *x, const char *name)
{
	struct named n = { .name = name };

	MHD_get_connection_values(x->mhd, MHD_HEADER_KIND, count_named, &n);
	return n.count;
}

/* One of `name=value&…`, with + for spaces, which are made such before escapes give other ones. */
static char *decode_field(const char *text, size_t len)
{
	auto_buf struct buf plain = { 0 };
	struct buf decoded = { 0 };

	buf_add(&plain, text, len);
	for (size_t i = 0; i < len; i++) {
		if (plain.data[i] == '+')
			plain.data[i] = ' ';
	}
	http_decode(plain.data, len, &decoded); /* cannot fail: head_check() has tried */
	return buf_take(&decoded);
}

static const char *keep_decoded(struct http_exchange *x, char *value)
{
	x->decoded = xgrow(x->decoded, (x->decoded_count + 1) * sizeof(*x->decoded));
	x->decoded[x->decoded_count++] = value;
	return value;
}

const char *http_query(struct http_exchange *x, const char *name)
{
	const char *at = x->query;

	while (at && *at) {
		size_t len = strcspn(at, "&");
		size_t name_len = strcspn(at, "=&");
		auto_free char *field = decode_field(at, name_len);
		size_t value_at = name_len < len ? name_len + 1 : len;

		if (strcmp(field, name) == 0)
			return keep_decoded(x, decode_field(at + value_at, len - value_at));
		at += len + (at[len] == '&');
	}
	return NULL;
}
