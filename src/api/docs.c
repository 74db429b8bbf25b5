/* GET /docs and what belongs to it: web/docs, which is part of the program. */
#include "api/handlers.h"

#include "base/buf.h"
#include "base/own.h"

#include "api_files.h"

#include <openssl/evp.h>
#include <string.h>

enum { TAG_BYTES = 16 };

/* What the page may do: use what comes from here, and nothing else. data: is its icon. */
#define PAGE_POLICY                                                                                \
	"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Changes when the text does. */
static void make_tag(const void *text, size_t len, struct buf *ret)
{
	uint8_t hash[EVP_MAX_MD_SIZE];

	EVP_Digest(text, len, hash, NULL, EVP_sha256(), NULL);
	buf_add_str(ret, "\"");
	for (int i = 0; i < TAG_BYTES; i++)
		buf_addf(ret, "%02x", hash[i]);
	buf_add_str(ret, "\"");
}

/* What a browser has may be kept, but it asks each time whether it is still right: after an update it would show the
 * old API. */
void reply_page(struct call *call, const char *type, const void *text, size_t len)
{
	const char *known = http_header(call->x, "If-None-Match");
	auto_buf struct buf tag = { 0 };

	make_tag(text, len, &tag);
	http_set_header(call->x, "ETag", tag.data);
	http_set_header(call->x, "Cache-Control", "no-cache");
	http_set_header(call->x, "X-Content-Type-Options", "nosniff");
	if (known && (strstr(known, tag.data) || strcmp(known, "*") == 0))
		http_reply(call->x, 304, NULL, text, len); /* of it only the length is told */
	else
		http_reply(call->x, 200, type, text, len);
}

void docs_page(struct call *call)
{
	http_set_header(call->x, "Content-Security-Policy", PAGE_POLICY);
	http_set_header(call->x, "Referrer-Policy", "no-referrer");
	reply_page(
		call, "text/html; charset=utf-8", embedded_docs_html, sizeof(embedded_docs_html));
}

void docs_script(struct call *call)
{
	reply_page(
		call, "text/javascript; charset=utf-8", embedded_docs_js, sizeof(embedded_docs_js));
}

void docs_style(struct call *call)
{
	reply_page(call, "text/css; charset=utf-8", embedded_docs_css, sizeof(embedded_docs_css));
}
