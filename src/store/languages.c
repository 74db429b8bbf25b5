#include "store/inner.h"

static void free_language(struct store_language *language)
{
	free(language->id);
	free(language->owner);
	free(language->yaml);
}

void store_languages_free(struct store_language *languages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free_language(&languages[i]);
	free(languages);
}

static int write_put(struct store *s, struct op *op, struct err *e)
{
	const struct store_language *language = &op->language;
	auto_query query = db_query(&s->writer, QUERY_LANGUAGE_PUT, e);

	if (!query)
		return -1;
	db_bind(query, 1, language->id);
	db_bind(query, 2, language->owner);
	db_bind(query, 3, language->yaml);
	sqlite3_bind_double(query, 4, language->created_s);
	return db_step(&s->writer, query, e);
}

static int check_language(const struct store_language *language, struct err *e)
{
	if (store_check_text("language's id", language->id, STORE_NAME_MAX, e) ||
		store_check_text("language's owner", language->owner, STORE_NAME_MAX, e))
		return -1;
	return store_check_text("language's text", language->yaml, STORE_JSON_MAX, e);
}

void store_put_language(
	struct store *s, const struct store_language *language, store_done *done, void *context)
{
	struct op *op = op_new(write_put, done, context);
	struct err e;

	if (check_language(language, &e)) {
		op_fail(op, &e);
		writer_submit(s, op);
		return;
	}
	op->language.id = xstrdup(language->id);
	op->language.owner = xstrdup(language->owner);
	op->language.yaml = xstrdup(language->yaml);
	op->language.created_s = language->created_s;
	writer_submit(s, op);
}

static int write_removed(struct store *s, struct op *op, struct err *e)
{
	return store_write_removed(s, QUERY_LANGUAGE_REMOVE, "language", op->id, e);
}

void store_remove_language(struct store *s, const char *id, store_done *done, void *context)
{
	struct op *op = op_new(write_removed, done, context);

	op->id = xstrdup(id);
	writer_submit(s, op);
}

int store_list_languages(
	struct store *s, struct store_language **ret, size_t *ret_count, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_LANGUAGE_LIST, e);
	struct store_language *languages = NULL;
	size_t count = 0;
	int more;

	if (!query)
		return -1;
	sqlite3_bind_int(query, 1, STORE_LIST_MAX);
	while ((more = db_step(&s->reader, query, e)) > 0) {
		languages = xgrow(languages, (count + 1) * sizeof(*languages));
		languages[count++] = (struct store_language){
			.id = db_text(query, 0),
			.owner = db_text(query, 1),
			.yaml = db_text(query, 2),
			.created_s = sqlite3_column_double(query, 3),
		};
	}
	if (more < 0) {
		store_languages_free(languages, count);
		return -1;
	}
	*ret = languages;
	*ret_count = count;
	return 0;
}
