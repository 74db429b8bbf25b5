#include "api/api.h"

#include "base/own.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSON_TYPE "application/json"

json_t *reply_text(const char *data, size_t len)
{
	auto_buf struct buf clean = { 0 };

	if (utf8_valid(data, len))
		return json_stringn_nocheck(data, len);
	utf8_add_replaced(&clean, data, len);
	buf_add(&clean, "", 0);
	return json_stringn_nocheck(clean.data, clean.len);
}

void reply_json(struct call *call, unsigned status, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY);

	json_decref(value);
	http_reply_taken(call->x, status, JSON_TYPE, text, strlen(text));
}

void reply_nothing(struct call *call, unsigned status)
{
	http_reply(call->x, status, NULL, "", 0);
}

void reply_error(struct call *call, unsigned status, const char *code, const char *format, ...)
{
	char text[1024];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len >= (int)sizeof(text))
		len = sizeof(text) - 1;
	reply_json(call, status,
		json_pack("{s:o, s:s}", "detail", reply_text(text, (size_t)len), "code", code));
}

int refuse(struct refusal *r, unsigned status, const char *code, const char *format, ...)
{
	va_list args;

	*r = (struct refusal){ .status = status, .code = code };
	va_start(args, format);
	vsnprintf(r->text, sizeof(r->text), format, args);
	va_end(args);
	return -1;
}

json_t *refusal_json(struct refusal *r)
{
	json_t *detail = r->errors ? r->errors : reply_text(r->text, strlen(r->text));

	r->errors = NULL;
	return json_pack("{s:o, s:s}", "detail", detail, "code", r->code);
}

void reply_refusal(struct call *call, struct refusal *r)
{
	char seconds[16];

	snprintf(seconds, sizeof(seconds), "%u", r->retry_after_s);
	if (r->retry_after_s)
		http_set_header(call->x, "Retry-After", seconds);
	reply_json(call, r->status, refusal_json(r));
}

const char *reply_code(unsigned status)
{
	switch (status) {
	case 413:
		return "too_large";
	case 408:
		return "timeout";
	case 503:
		return "busy";
	case 507:
		return "disk_full";
	default:
		return "malformed";
	}
}

unsigned reply_status(enum hotcell_error_kind kind, int sys_errno, const char **ret_code)
{
	static const struct {
		unsigned status;
		const char *code;
	} table[] = {
		[HOTCELL_ERROR_SYSTEM] = { 500, "system" },
		[HOTCELL_ERROR_INPUT] = { 422, "invalid" },
		[HOTCELL_ERROR_NOT_FOUND] = { 404, "not_found" },
		[HOTCELL_ERROR_UNAVAILABLE] = { 400, "unavailable" },
		[HOTCELL_ERROR_PROTOCOL] = { 500, "internal" },
		[HOTCELL_ERROR_LIMIT] = { 413, "too_large" },
		[HOTCELL_ERROR_GONE] = { 503, "gone" },
	};

	if (sys_errno == ENOSPC || sys_errno == EDQUOT) {
		*ret_code = "disk_full";
		return 507;
	}
	if (kind < HOTCELL_ERROR_SYSTEM || kind > HOTCELL_ERROR_GONE)
		kind = HOTCELL_ERROR_SYSTEM;
	*ret_code = table[kind].code;
	return table[kind].status;
}

int reply_reason_len(const char *text)
{
	const char *advice = strstr(text, ERR_ADVICE);

	return (int)(advice ? (size_t)(advice - text) : strlen(text));
}

void reply_failure(struct call *call, const struct hotcell_error *e)
{
	const char *code;
	unsigned status = reply_status(e->kind, 0, &code);

	reply_error(call, status, code, "%.*s", reply_reason_len(e->text), e->text);
}

void reply_err(struct call *call, const struct err *e)
{
	const char *code;
	unsigned status = reply_status((enum hotcell_error_kind)e->kind, e->sys_errno, &code);

	/* Where our files are is nobody's business. */
	if (status == 507)
		reply_error(call, status, code, "The disk is full.");
	else
		reply_error(call, status, code, "%.*s", reply_reason_len(e->text), e->text);
}

void reply_invalid(struct call *call, json_t *errors)
{
	reply_json(call, 422, json_pack("{s:o, s:s}", "detail", errors, "code", "invalid"));
}
