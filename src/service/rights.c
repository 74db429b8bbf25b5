#include "service/rights.h"

#include "base/buf.h"
#include "base/own.h"

#include <jansson.h>
#include <string.h>

enum { COUNT_MAX = 1000000, JSON_MAX = 16384 };
#define BYTES_MAX (1ULL << 60)

static const char *const isolation_words[] = {
	[HOTCELL_ISOLATION_PROCESS] = "process",
	[HOTCELL_ISOLATION_CONTAINER] = "container",
	[HOTCELL_ISOLATION_VM] = "vm",
};
static const char *const network_words[] = {
	[HOTCELL_NETWORK_NONE] = "none",
	[HOTCELL_NETWORK_HOST] = "host",
};

static void json_free(json_t **json)
{
	json_decref(*json);
}

#define auto_json __attribute__((cleanup(json_free)))

void rights_set_default(struct rights *r)
{
	*r = (struct rights){
		.weakest_isolation = HOTCELL_ISOLATION_CONTAINER,
		.network = HOTCELL_NETWORK_NONE,
	};
}

void rights_set_all(struct rights *r)
{
	*r = (struct rights){
		.weakest_isolation = HOTCELL_ISOLATION_PROCESS,
		.network = HOTCELL_NETWORK_HOST,
		.admin = true,
	};
}

/* ---- words ---- */

static int find_word(const char *word, const char *const *words, unsigned count)
{
	for (unsigned i = 0; word && i < count; i++)
		if (words[i] && strcmp(words[i], word) == 0)
			return (int)i;
	return -1;
}

int rights_parse_isolation(const char *word, enum hotcell_isolation *ret)
{
	int found = find_word(word, isolation_words, COUNT(isolation_words));

	if (found < 0)
		return -1;
	*ret = (enum hotcell_isolation)found;
	return 0;
}

int rights_parse_network(const char *word, enum hotcell_network *ret)
{
	int found = find_word(word, network_words, COUNT(network_words));

	if (found < 0)
		return -1;
	*ret = (enum hotcell_network)found;
	return 0;
}

int rights_add_language(struct rights *r, const char *id, struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+_-";
	size_t len = strlen(id);

	if (len == 0 || len > RIGHTS_LANGUAGE_LEN || strspn(id, letters) != len)
		return err_set(e, ERR_INPUT, "languages = '%.40s': want ids of languages", id);
	if (r->languages_count == RIGHTS_LANGUAGES_MAX)
		return err_set(e, ERR_INPUT, "languages: more than %d", RIGHTS_LANGUAGES_MAX);
	memcpy(r->languages[r->languages_count++], id, len + 1);
	return 0;
}

/* ---- JSON ---- */

static int wrong(const char *name, const char *want, struct err *e)
{
	return err_set(e, ERR_INPUT, "rights: %s: want %s", name, want);
}

static int read_count(
	const char *name, const json_t *value, uint64_t most, uint64_t *ret, struct err *e)
{
	json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;

	if (number < 0 || (uint64_t)number > most)
		return err_set(e, ERR_INPUT, "rights: %s: want a number from 0 to %llu", name,
			(unsigned long long)most);
	*ret = (uint64_t)number;
	return 0;
}

static int read_languages(struct rights *r, const json_t *value, struct err *e)
{
	size_t count = json_array_size(value);

	/* An empty list would be nobody's wish: it would allow everything. */
	if (!json_is_array(value) || count == 0)
		return wrong("languages", "a list of ids", e);
	for (size_t i = 0; i < count; i++) {
		const char *id = json_string_value(json_array_get(value, i));

		if (!id)
			return wrong("languages", "a list of ids", e);
		if (rights_add_language(r, id, e))
			return err_wrap(e, "rights");
	}
	return 0;
}

static int read_one(struct rights *r, const char *name, const json_t *value, struct err *e)
{
	if (strcmp(name, "runs_per_minute") == 0)
		return read_count(name, value, COUNT_MAX, &r->runs_per_minute, e);
	if (strcmp(name, "max_sessions") == 0)
		return read_count(name, value, COUNT_MAX, &r->max_sessions, e);
	if (strcmp(name, "max_stored_bytes") == 0)
		return read_count(name, value, BYTES_MAX, &r->max_stored_bytes, e);
	if (strcmp(name, "languages") == 0)
		return read_languages(r, value, e);
	if (strcmp(name, "weakest_isolation") == 0)
		return rights_parse_isolation(json_string_value(value), &r->weakest_isolation) ?
			       wrong(name, "vm, container or process", e) :
			       0;
	if (strcmp(name, "network") == 0)
		return rights_parse_network(json_string_value(value), &r->network) ?
			       wrong(name, "none or host", e) :
			       0;
	if (strcmp(name, "admin") == 0) {
		r->admin = json_is_true(value);
		return json_is_boolean(value) ? 0 : wrong(name, "true or false", e);
	}
	return err_set(e, ERR_INPUT, "rights: '%.40s' is not known to this version", name);
}

int rights_parse(const char *json, struct rights *ret, struct err *e)
{
	struct rights r;
	json_error_t problem;
	auto_json json_t *object = NULL;
	const char *name;
	json_t *value;

	rights_set_default(&r);
	if (strnlen(json, JSON_MAX + 1) > JSON_MAX)
		return err_set(e, ERR_LIMIT, "rights: more than %d bytes", JSON_MAX);
	object = json_loads(json, JSON_REJECT_DUPLICATES, &problem);
	if (!json_is_object(object))
		return err_set(
			e, ERR_INPUT, "rights: %s", object ? "want an object" : problem.text);
	json_object_foreach(object, name, value)
	{
		if (read_one(&r, name, value, e))
			return -1;
	}
	*ret = r;
	return 0;
}

char *rights_format(const struct rights *r)
{
	auto_json json_t *o = json_object();
	json_t *languages = json_array();

	json_object_set_new(o, "runs_per_minute", json_integer((json_int_t)r->runs_per_minute));
	json_object_set_new(o, "max_sessions", json_integer((json_int_t)r->max_sessions));
	json_object_set_new(o, "max_stored_bytes", json_integer((json_int_t)r->max_stored_bytes));
	json_object_set_new(
		o, "weakest_isolation", json_string(isolation_words[r->weakest_isolation]));
	for (unsigned i = 0; i < r->languages_count; i++)
		json_array_append_new(languages, json_string(r->languages[i]));
	if (r->languages_count)
		json_object_set(o, "languages", languages);
	json_decref(languages);
	json_object_set_new(o, "network", json_string(network_words[r->network]));
	json_object_set_new(o, "admin", json_boolean(r->admin));
	return json_dumps(o, JSON_COMPACT);
}

/* ---- asking ---- */

enum hotcell_isolation rights_auto(const struct rights *r)
{
	return r->weakest_isolation == HOTCELL_ISOLATION_VM ? HOTCELL_ISOLATION_VM :
							      HOTCELL_ISOLATION_AUTO;
}

bool rights_allow_isolation(const struct rights *r, enum hotcell_isolation isolation)
{
	/* hotcell.h has them in the order of their strength. */
	return isolation == HOTCELL_ISOLATION_AUTO || isolation >= r->weakest_isolation;
}

bool rights_allow_language(const struct rights *r, const char *id)
{
	for (unsigned i = 0; i < r->languages_count; i++)
		if (strcmp(r->languages[i], id) == 0)
			return true;
	return r->languages_count == 0;
}

bool rights_allow_network(const struct rights *r, enum hotcell_network network)
{
	return network != HOTCELL_NETWORK_HOST || r->network == HOTCELL_NETWORK_HOST;
}
