/* api: the HTTP API. routes.c is the table of all there is; one file for each kind of thing has its handlers.
 *
 *	headers ──▶ route, caller, Host and Origin ──▶ route->on_headers (where a body goes) ──▶ body ──▶ route->on_request
 *
 * A handler answers at once or later. If it answers later, it sets call->on_end: the client may go before. */
#ifndef HOTCELL_API_API_H
#define HOTCELL_API_API_H

#include "http/http.h"
#include "service/caller.h"
#include "service/service.h"

#include <jansson.h>

struct call;

/* What a row does not say is the first. */
enum route_access {
	ROUTE_KEY,   /* for callers with a key, or without where there are none */
	ROUTE_OPEN,  /* for everybody: says nothing about anybody */
	ROUTE_ADMIN, /* for the local user, and for keys that may */
};

struct route {
	const char *method;
	const char *pattern; /* "/v1/files/{id}"; "{path…}" takes all that is left, slashes too */
	void (*on_request)(struct call *call);
	enum route_access access;
	/* Says where the body goes; may answer, which refuses it. NULL: into memory, if there is any. */
	void (*on_headers)(struct call *call);
	/* The body is too large, or there is no room for it: in the route's own words. NULL: in the usual ones. */
	void (*on_refused)(struct call *call, unsigned status, const char *why);
	const char *summary; /* for /openapi.json: one sentence */
};

extern const struct route routes[];
extern const size_t routes_count;

enum { CALL_PARAMS_MAX = 3 };

struct api {
	struct service *service;
	bool is_loopback; /* it listens there only, so that Host must say so */
	bool is_guarded;  /* whoever can connect to its unix sockets is meant to */
	uid_t owner_uid;  /* who started the service */
	char *openapi;    /* what /openapi.json says, once somebody has asked: openapi_forget() */
};

struct call {
	struct api *api;
	struct service *service;
	struct http_exchange *x;
	const struct route *route;
	struct caller caller;
	char *params[CALL_PARAMS_MAX]; /* decoded, in the order of the pattern */
	int body_fd;                   /* that the body goes to, or -1; closed with the call */
	void *state;                   /* of the handler */
	/* The exchange is over: all was sent (`complete`), or the client is gone. */
	void (*on_end)(struct call *call, bool complete);
	void (*on_room)(struct call *call); /* of a stream */
};

/* For http_open(). */
void api_handlers(struct api *api, struct http_handlers *ret);

/* Why a request is refused: a sentence, or a list of complaints about its fields. */
struct refusal {
	unsigned status;
	const char *code;
	char text[512];
	json_t *errors; /* in place of the text */
	unsigned retry_after_s;
};

/* Returns -1. */
int refuse(struct refusal *r, unsigned status, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- reply.c ---- */
/* Takes what it holds. */
void reply_refusal(struct call *call, struct refusal *r);
json_t *refusal_json(struct refusal *r);
/* Takes `value`. */
void reply_json(struct call *call, unsigned status, json_t *value);
void reply_nothing(struct call *call, unsigned status);
/* {"detail": TEXT, "code": CODE} */
void reply_error(struct call *call, unsigned status, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* An error of the engine's or of ours. */
void reply_failure(struct call *call, const struct hotcell_error *e);
void reply_err(struct call *call, const struct err *e);
/* {"detail": [{type, loc, msg, input}…]}. Takes `errors`. */
void reply_invalid(struct call *call, json_t *errors);
/* The code for a request that http has refused with that status. */
const char *reply_code(unsigned status);
/* How much of an error's text is the reason; behind it may be advice for who sits at the machine. */
int reply_reason_len(const char *text);
/* HTTP's status for a kind of error, and its code. */
unsigned reply_status(enum hotcell_error_kind kind, int sys_errno, const char **ret_code);
/* Text of our own, which is the same each time: a client that has it already is told so. Copies. docs.c */
void reply_page(struct call *call, const char *type, const void *text, size_t len);
/* A file that the client is to keep; takes the descriptor. */
void reply_download(struct call *call, const char *name, int fd, uint64_t size);
/* Text that may be no UTF-8. */
json_t *reply_text(const char *data, size_t len);

/* ---- auth.c ---- */
/* Whether a browser may have been tricked into asking. False: answered. */
bool auth_admit_page(struct call *call);
/* Who it is, and whether it may use the route. False: answered. */
bool auth_admit(struct call *call);

#endif
