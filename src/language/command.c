#include "language/language.h"

#include "base/own.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct list {
	char **at;
	size_t count;
};

static void list_add(struct list *l, char *word)
{
	l->at = xgrow(l->at, (l->count + 2) * sizeof(*l->at));
	l->at[l->count++] = word;
	l->at[l->count] = NULL;
}

static void add_args(struct buf *word, const char *const *args)
{
	for (size_t i = 0; args && args[i]; i++) {
		buf_add_str(word, i ? " " : "");
		buf_add_str(word, args[i]);
	}
}

/* Adds the value of the {name} that begins at `at` and returns its length with both braces; 0 if
 * it is none of ours. */
static size_t add_value(struct buf *word, const char *at, const struct expansion *x)
{
	char memory_mb[24];
	const struct {
		const char *name;
		const char *value;
	} values[] = {
		{ "{program}", x->program },
		{ "{file}", x->file },
		{ "{out}", x->out },
		{ "{drivers}", x->drivers },
		{ "{workspace}", x->workspace },
		{ "{tmp}", x->tmp },
		{ "{memory_mb}", memory_mb },
	};

	snprintf(memory_mb, sizeof(memory_mb), "%" PRIu64,
		x->memory_mb ? x->memory_mb : LANGUAGE_MEMORY_MB);
	if (strncmp(at, "{args}", 6) == 0) {
		add_args(word, x->args);
		return 6;
	}
	for (size_t i = 0; i < COUNT(values); i++) {
		size_t len = strlen(values[i].name);

		if (values[i].value && strncmp(at, values[i].name, len) == 0) {
			buf_add_str(word, values[i].value);
			return len;
		}
	}
	return 0;
}

static char *expand_word(const char *from, const struct expansion *x)
{
	struct buf word = { 0 };

	while (*from) {
		size_t plain = strcspn(from, "{");
		size_t used;

		buf_add(&word, from, plain);
		from += plain;
		if (!*from)
			break;
		used = add_value(&word, from, x);
		if (!used) {
			buf_add(&word, from, 1);
			used = 1;
		}
		from += used;
	}
	return buf_take(&word);
}

char **command_expand(const struct strings *command, const struct expansion *x)
{
	struct list words = { .at = xalloc(sizeof(char *)) };

	for (unsigned i = 0; i < command->count; i++) {
		if (strcmp(command->at[i], "{args}") != 0) {
			list_add(&words, expand_word(command->at[i], x));
			continue;
		}
		for (size_t a = 0; x->args && x->args[a]; a++)
			list_add(&words, xstrdup(x->args[a]));
	}
	return words.at;
}

void strings_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}
