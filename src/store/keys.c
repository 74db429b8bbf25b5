#include "base/clock.h"
#include "store/inner.h"

enum { HASH_SIZE = 32, LOOK_AGAIN_US = 5000 };

void store_key_free(struct store_key *key)
{
	free(key->name);
	free(key->rights_json);
	key->name = key->rights_json = NULL;
}

void store_keys_free(struct store_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_key_free(&keys[i]);
	free(keys);
}

/* ---- writing ---- */

static int check_key(const struct store_key *key, struct err *e)
{
	if (!store_is_id(key->id))
		return err_set(e, ERR_INPUT, "the key's id has not the form of one");
	if (store_check_text("key's name", key->name, STORE_NAME_MAX, e) ||
		store_check_text("key's rights", key->rights_json, STORE_JSON_MAX, e))
		return -1;
	if (!key->name[0])
		return err_set(e, ERR_INPUT, "the key's name is empty");
	/* Or to revoke it could mean two. */
	if (store_is_id(key->name))
		return err_set(e, ERR_INPUT, "a key's name must not look like an id");
	return 0;
}

static int check_name_is_free(struct store *s, const char *name, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_KEY_NAMED, e);
	int taken;

	if (!query)
		return -1;
	db_bind(query, 1, name);
	taken = db_step(&s->writer, query, e);
	if (taken > 0)
		return err_set(e, ERR_INPUT,
			"there is a key '%.64s': revoke it first, or take another name", name);
	return taken;
}

static int write_key(
	struct store *s, const struct store_key *key, const uint8_t hash[HASH_SIZE], struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_KEY_ADD, e);

	if (!query)
		return -1;
	db_bind(query, 1, key->id);
	db_bind(query, 2, key->name);
	sqlite3_bind_blob(query, 3, hash, HASH_SIZE, SQLITE_STATIC);
	db_bind(query, 4, key->rights_json);
	sqlite3_bind_double(query, 5, key->created_s);
	sqlite3_bind_double(query, 6, key->revoked_s);
	return db_step(&s->writer, query, e);
}

int store_add_key(
	struct store *s, const struct store_key *key, const uint8_t hash[HASH_SIZE], struct err *e)
{
	bool failed;

	if (check_key(key, e) || store_begin(s, e))
		return -1;
	failed = check_name_is_free(s, key->name, e) || write_key(s, key, hash, e);
	s->keys_looked_us = 0;
	return store_end(s, failed, e);
}

static int write_revoked(struct store *s, const char *name, double now_s, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_KEY_REVOKE, e);

	if (!query)
		return -1;
	sqlite3_bind_double(query, 1, now_s > 0 ? now_s : store_now_s());
	db_bind(query, 2, name);
	if (db_step(&s->writer, query, e))
		return -1;
	if (sqlite3_changes(s->writer.sqlite) == 0)
		return err_set(e, ERR_NOT_FOUND, "there is no key '%.64s' that is good", name);
	return 0;
}

int store_revoke_key(struct store *s, const char *name, double now_s, struct err *e)
{
	bool failed;

	if (store_check_text("key's name", name, STORE_NAME_MAX, e) || store_begin(s, e))
		return -1;
	failed = write_revoked(s, name, now_s, e) != 0;
	s->keys_looked_us = 0;
	return store_end(s, failed, e);
}

/* ---- reading ---- */

static void read_key(sqlite3_stmt *query, struct store_key *ret)
{
	db_id(query, 0, ret->id);
	ret->name = db_text(query, 1);
	ret->rights_json = db_text(query, 2);
	ret->created_s = sqlite3_column_double(query, 3);
	ret->revoked_s = sqlite3_column_double(query, 4);
}

int store_find_key(
	struct store *s, const uint8_t hash[HASH_SIZE], struct store_key *ret, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_KEY_FIND, e);
	int found;

	if (!query)
		return -1;
	sqlite3_bind_blob(query, 1, hash, HASH_SIZE, SQLITE_STATIC);
	found = db_step(&s->reader, query, e);
	if (found < 0)
		return -1;
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "there is no such key");
	read_key(query, ret);
	return 0;
}

int store_list_keys(struct store *s, struct store_key **ret, size_t *ret_count, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_KEY_LIST, e);
	struct store_key *keys = NULL;
	size_t count = 0;
	int more;

	if (!query)
		return -1;
	sqlite3_bind_int(query, 1, STORE_LIST_MAX);
	while ((more = db_step(&s->reader, query, e)) > 0) {
		keys = xgrow(keys, (count + 1) * sizeof(*keys));
		read_key(query, &keys[count++]);
	}
	if (more < 0) {
		store_keys_free(keys, count);
		return -1;
	}
	*ret = keys;
	*ret_count = count;
	return 0;
}

static bool look_for_keys(struct store *s)
{
	struct err ignored;
	auto_query query = db_query(&s->reader, QUERY_KEY_ANY, &ignored);

	return !query || db_step(&s->reader, query, &ignored) != 0;
}

bool store_has_keys(struct store *s)
{
	int64_t now_us = clock_now_us();

	if (now_us >= s->keys_looked_us + LOOK_AGAIN_US || !s->keys_looked_us) {
		s->has_keys = look_for_keys(s);
		s->keys_looked_us = now_us;
	}
	return s->has_keys;
}
