/* The tables below are the format of languages/<id>.yaml: a key that is not in them is an error. */
#include "language/schema.h"

#include "base/fd.h"
#include "base/own.h"
#include "language/complaint.h"

#include <fcntl.h>
#include <string.h>

/* A text that must or may be there, a list of texts, a number. */
#define TEXT(key, type, member)                                                                    \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, SCHEMA_MAX_TEXT)
#define MAYBE_TEXT(key, type, member)                                                              \
	CYAML_FIELD_STRING_PTR(                                                                    \
		key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 1, SCHEMA_MAX_TEXT)
/* offsetof() takes no parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */
#define LIST(key, type, member)                                                                    \
	CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member.at, \
		member.count, &entry_schema, 0, SCHEMA_MAX_ENTRIES)
/* NOLINTEND(bugprone-macro-parentheses) */
#define NUMBER(key, type, member) CYAML_FIELD_UINT(key, CYAML_FLAG_OPTIONAL, type, member)

static const cyaml_schema_value_t entry_schema = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, SCHEMA_MAX_TEXT),
};

static const cyaml_schema_field_t candidate_fields[] = {
	TEXT("program", struct candidate, program),
	LIST("also", struct candidate, also),
	LIST("version", struct candidate, version),
	LIST("compile", struct candidate, compile),
	LIST("run", struct candidate, run),
	LIST("last_line", struct candidate, last_line),
	LIST("warm", struct candidate, warm),
	LIST("needs", struct candidate, needs),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t candidate_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct candidate, candidate_fields),
};

static const cyaml_schema_field_t compile_limits_fields[] = {
	NUMBER("timeout_s", struct compile_limits, timeout_s),
	NUMBER("memory_mb", struct compile_limits, memory_mb),
	NUMBER("processes", struct compile_limits, processes),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t profile_fields[] = {
	TEXT("name", struct profile, name),
	LIST("modules", struct profile, modules),
	LIST("words", struct profile, words),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t profile_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct profile, profile_fields),
};

static const cyaml_strval_t vm_words[] = {
	{ "no", LANGUAGE_VM_NO },
	{ "yes", LANGUAGE_VM_YES },
};

static const cyaml_strval_t keeps_words[] = {
	{ "no", LANGUAGE_KEEPS_NO },
	{ "yes", LANGUAGE_KEEPS_YES },
	{ "only", LANGUAGE_KEEPS_ONLY },
};

static const cyaml_schema_field_t language_fields[] = {
	TEXT("id", struct language, id),
	TEXT("name", struct language, name),
	LIST("aliases", struct language, aliases),
	TEXT("file", struct language, file),
	LIST("endings", struct language, endings),
	LIST("shebangs", struct language, shebangs),
	MAYBE_TEXT("install", struct language, install),
	CYAML_FIELD_SEQUENCE("find", CYAML_FLAG_POINTER, struct language, find, &candidate_schema,
		1, SCHEMA_MAX_CANDIDATES),
	LIST("version", struct language, version),
	LIST("compile", struct language, compile),
	CYAML_FIELD_MAPPING("compile_limits", CYAML_FLAG_OPTIONAL, struct language, compile_limits,
		compile_limits_fields),
	LIST("run", struct language, run),
	LIST("last_line", struct language, last_line),
	LIST("env", struct language, env),
	LIST("needs", struct language, needs),
	NUMBER("memory_mb", struct language, memory_mb),
	NUMBER("processes", struct language, processes),
	CYAML_FIELD_ENUM("vm", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct language, vm,
		vm_words, COUNT(vm_words)),
	LIST("warm", struct language, warm),
	CYAML_FIELD_ENUM("keeps_state", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct language,
		keeps_state, keeps_words, COUNT(keeps_words)),
	MAYBE_TEXT("rehearsal", struct language, rehearsal),
	CYAML_FIELD_SEQUENCE("profiles", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct language,
		profiles, &profile_schema, 0, SCHEMA_MAX_CANDIDATES),
	MAYBE_TEXT("driver", struct language, driver),
	LIST("dependencies", struct language, dependencies),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t language_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct language, language_fields),
};

/* Aliases are off: a few lines of them can stand for gigabytes. */
static cyaml_config_t config(struct complaint *c)
{
	return (cyaml_config_t){
		.log_fn = complaint_log,
		.log_ctx = c,
		.log_level = CYAML_LOG_WARNING,
		.mem_fn = cyaml_mem,
		.flags = CYAML_CFG_NO_ALIAS,
	};
}

void schema_free(struct language *l)
{
	struct complaint ignored = { 0 };
	cyaml_config_t cfg = config(&ignored);

	if (!l)
		return;
	free(l->path);
	cyaml_free(&cfg, &language_schema, l, 0);
}

/* All keys that may stand in a file, for "did you mean". */
static void list_keys(const char **ret, size_t size)
{
	static const cyaml_schema_field_t *const tables[] = { language_fields, candidate_fields,
		compile_limits_fields, profile_fields };
	size_t count = 0;

	for (size_t i = 0; i < COUNT(tables); i++)
		for (const cyaml_schema_field_t *f = tables[i]; f->key && count < size - 1; f++)
			ret[count++] = f->key;
	ret[count] = NULL;
}

static int parse(const char *path, const struct buf *text, struct language **ret, struct err *e)
{
	const char *keys[COUNT(language_fields) + COUNT(candidate_fields) +
			 COUNT(compile_limits_fields) + COUNT(profile_fields)];
	struct complaint_subject about = { path, text->data, keys };
	struct complaint c = { 0 };
	cyaml_config_t cfg = config(&c);
	cyaml_err_t code;

	code = cyaml_load_data((const uint8_t *)text->data, text->len, &cfg, &language_schema,
		(cyaml_data_t **)ret, NULL);
	if (code == CYAML_OK && !c.message[0])
		return *ret ? 0 : err_set(e, ERR_INPUT, "%s:1: the file is empty", path);
	list_keys(keys, COUNT(keys));
	return complaint_tell(&c, code, &about, e);
}

static void free_language(struct language **l)
{
	schema_free(*l);
}

struct language *schema_load(const char *path, struct err *e)
{
	__attribute__((cleanup(free_language))) struct language *l = NULL;
	auto_buf struct buf text = { 0 };

	if (fd_slurp(AT_FDCWD, path, SCHEMA_MAX_FILE, &text, e))
		return NULL;
	if (memchr(text.data, '\0', text.len)) {
		err_set(e, ERR_INPUT, "%s:1: the file has NUL bytes: it is not text", path);
		return NULL;
	}
	if (parse(path, &text, &l, e) || check_language(l, path, text.data, e))
		return NULL;
	l->path = xstrdup(path);
	return take_ptr(&l);
}
