#include "cli/verbs.h"

#include "cli/cli.h"
#include "cli/show.h"

#include "base/own.h"
#include "cli/plain.h"

#include <signal.h>
#include <string.h>

void verbs_take_word(struct argp_state *state, struct verbs *v, char *word)
{
	if (!v->chosen) {
		for (v->chosen = v->table; v->chosen->name; v->chosen++)
			if (strcmp(v->chosen->name, word) == 0)
				return;
		v->chosen = NULL;
		argp_error(state, "'%s' is none of its commands", word);
		return;
	}
	if (v->count == VERBS_WORDS_MAX)
		argp_error(state, "more than %d words", VERBS_WORDS_MAX);
	v->words = xgrow(v->words, (v->count + 2) * sizeof(*v->words));
	v->words[v->count++] = word;
	v->words[v->count] = NULL;
}

void verbs_see(struct verbs *v, unsigned bit, const char *option)
{
	v->options_seen |= 1U << bit;
	v->option_names[bit] = option;
}

void verbs_check(struct argp_state *state, const struct verbs *v)
{
	unsigned wrong;

	if (!v->chosen) {
		argp_error(state, "what is to be done?");
		return;
	}
	if (v->count < v->chosen->least || v->count > v->chosen->most)
		argp_error(state, "want: %s %s %s", state->name, v->chosen->name, v->chosen->words);
	wrong = v->options_seen & ~v->chosen->options;
	if (wrong)
		argp_error(state, "'%s' does not take --%s", v->chosen->name,
			v->option_names[__builtin_ctz(wrong)]);
}

char *verbs_describe(const struct verb *table, const char *before, const char *behind)
{
	struct buf b = { 0 };

	buf_addf(&b, "%s\n", before);
	for (; table->name; table++) {
		auto_free char *call = xasprintf("%s %s", table->name, table->words);

		buf_addf(&b, "\n  %-26s %s", call, table->what);
	}
	buf_addf(&b, "\n\v%s", behind);
	return buf_take(&b);
}

int verbs_run(const struct verbs *v, const struct server_options *server, struct client **client,
	void *command)
{
	struct err e = { 0 };
	int status;

	if (client_open(server, client, &e))
		return complain("%s", e.text);
	client_watch_signals(*client, show_catch_signals());
	status = v->chosen->run(command);
	if (stdout_finish())
		status = EXIT_HOTCELL;
	client_free(*client);
	return status;
}

int verbs_fail(const struct client *c, const struct err *e)
{
	auto_free char *words = plain_text(e->text);

	if (client_was_interrupted(c))
		return 128 + SIGINT;
	return complain("%s", words);
}
