/* Who asks, and whether a browser was tricked into asking.
 *
 * On the unix socket the kernel tells the user: whoever the service belongs to, and root, may come in without a
 * key, as CALLER_LOCAL with all rights. So may everybody who can connect at all, where it is a service manager's and
 * modes of its file keep others out. Elsewhere it takes a key, unless there never was one and the address is loopback
 * (or --no-auth): then everybody is CALLER_LOCAL, too. Once there was one, a key that is shown counts wherever
 * it is shown: who has one means to be its owner, and whoever lost one is not let in for having shown it. Before, it is
 * what clients happen to have set.
 *
 * A page of another site may make a browser ask us; so an Origin that is not allowed is refused, and, where there are
 * no keys, a Host that is not ours (a name that was made to point here: DNS rebinding). */
#include "api/api.h"

#include "base/own.h"
#include "service/key.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

/* What a page may read of our answers, besides what it always may. */
#define EXPOSED "X-Run-Id, Retry-After, Content-Disposition"

static bool is_listed(const struct config_list *list, const char *text)
{
	for (char **at = list->at; *at; at++)
		if (strcasecmp(*at, text) == 0)
			return true;
	return false;
}

/* Whether a Host header is that name, whatever its port. */
static bool names_host(const char *host, const char *name)
{
	size_t len = strlen(name);

	return strncasecmp(host, name, len) == 0 && (host[len] == '\0' || host[len] == ':');
}

static bool is_loopback_name(const char *host)
{
	return names_host(host, "localhost") || names_host(host, "127.0.0.1") ||
	       names_host(host, "[::1]");
}

/* One that is listed with a port is meant with that port only. */
static bool is_allowed_host(const struct config_list *list, const char *host)
{
	for (char **at = list->at; *at; at++)
		if (names_host(host, *at))
			return true;
	return false;
}

static bool check_host(struct call *call)
{
	const struct config *config = call->service->config;
	const char *host = http_header(call->x, "Host");

	if (http_is_local(call->x) || !call->api->is_loopback || !host)
		return true;
	if (is_loopback_name(host) || is_allowed_host(&config->allowed_hosts, host))
		return true;
	reply_error(call, 421, "wrong_host",
		"The Host header does not name this service (setting allowed_hosts).");
	return false;
}

/* An Origin is sent by browsers. Our own pages have the Host that was asked. */
static bool is_own_origin(struct call *call, const char *origin)
{
	const char *host = http_header(call->x, "Host");
	const char *name = strstr(origin, "://");

	return host && name && strcasecmp(name + 3, host) == 0;
}

static bool check_origin(struct call *call)
{
	const char *origin = http_header(call->x, "Origin");
	const struct config *config = call->service->config;

	if (!origin || is_own_origin(call, origin))
		return true;
	if (is_listed(&config->cors_origins, origin) || is_listed(&config->cors_origins, "*")) {
		http_set_header(call->x, "Access-Control-Allow-Origin", origin);
		http_set_header(call->x, "Access-Control-Expose-Headers", EXPOSED);
		http_set_header(call->x, "Vary", "Origin");
		return true;
	}
	reply_error(call, 403, "origin",
		"Pages of this origin may not use the service (setting cors_origins).");
	return false;
}

static const char *bearer_key(const struct call *call)
{
	const char *bearer = http_header(call->x, "Authorization");

	return bearer && strncasecmp(bearer, "Bearer ", 7) == 0 ?
		       bearer + 7 + strspn(bearer + 7, " ") :
		       NULL;
}

/* False if there are two, and nobody knows whose the request is. */
static bool find_sent_key(struct call *call, const char **ret)
{
	const char *bearer = bearer_key(call);
	const char *other = http_header(call->x, "X-API-Key");

	if (bearer && other && strcmp(bearer, other) != 0) {
		reply_error(
			call, 400, "malformed", "Authorization and X-API-Key show different keys.");
		return false;
	}
	*ret = bearer ? bearer : other;
	return true;
}

static void be_local(struct caller *caller)
{
	snprintf(caller->owner, sizeof(caller->owner), CALLER_LOCAL);
	rights_set_all(&caller->rights);
	caller->is_admin = true;
}

static bool is_known_user(const struct call *call)
{
	uid_t uid = http_peer_uid(call->x);

	return call->api->is_guarded || uid == 0 || uid == call->api->owner_uid || uid == geteuid();
}

static bool turn_away(struct call *call, const char *text)
{
	http_set_header(call->x, "WWW-Authenticate", "Bearer");
	reply_error(call, 401, "unauthorized", "%s", text);
	return false;
}

static bool find_key(struct call *call, const char *key)
{
	struct store_key found = { 0 };
	struct err e = { 0 };
	uint8_t hash[KEY_HASH_SIZE];

	if (key_hash(key, strlen(key), hash))
		return turn_away(call, "The key is unknown or revoked.");
	if (store_find_key(call->service->store, hash, &found, &e)) {
		if (e.kind == ERR_NOT_FOUND)
			return turn_away(call, "The key is unknown or revoked.");
		reply_err(call, &e);
		return false;
	}
	memcpy(call->caller.owner, found.id, sizeof(found.id));
	call->caller.has_key = true;
	if (rights_parse(found.rights_json, &call->caller.rights, &e)) {
		store_key_free(&found);
		reply_err(call, &e);
		return false;
	}
	call->caller.is_admin = call->caller.rights.admin;
	store_key_free(&found);
	return true;
}

/* Why who shows no key is not let in; NULL if they are. */
static const char *why_key_is_needed(const struct call *call)
{
	if (http_is_local(call->x))
		return is_known_user(call) ?
			       NULL :
			       "This socket belongs to another user: a key is needed.";
	if (call->service->config->no_auth)
		return NULL;
	if (call->api->is_loopback && !store_has_keys(call->service->store))
		return NULL;
	return "A key is needed: Authorization: Bearer KEY, or X-API-Key: KEY.";
}

static bool identify(struct call *call)
{
	const char *key;
	const char *why;

	if (!find_sent_key(call, &key))
		return false;
	if (key && *key && store_has_keys(call->service->store))
		return find_key(call, key);
	why = why_key_is_needed(call);
	if (why)
		return turn_away(call, why);
	be_local(&call->caller);
	return true;
}

bool auth_admit_page(struct call *call)
{
	return check_host(call) && check_origin(call);
}

bool auth_admit(struct call *call)
{
	if (call->route->access == ROUTE_OPEN)
		return true;
	if (!identify(call))
		return false;
	if (call->route->access == ROUTE_ADMIN && !call->caller.is_admin) {
		reply_error(call, 403, "forbidden",
			"This needs a key that may administer (hotcell keys add --admin).");
		return false;
	}
	return true;
}
