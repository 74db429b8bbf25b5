/* A language as it is installed here: which of its candidates works, and which version it is. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

const struct strings *tool_command(
	const struct strings *of_candidate, const struct strings *of_language)
{
	return of_candidate->count ? of_candidate : of_language;
}

static char *join(const struct strings *words)
{
	struct buf b = { 0 };

	for (unsigned i = 0; i < words->count; i++)
		buf_addf(&b, "%s%s", i ? " " : "", words->at[i]);
	return buf_take(&b);
}

/* The first line, without what would disturb a table. */
static char *first_line(const char *text)
{
	size_t len = strcspn(text, "\r\n");
	char *line = xalloc(len + 1);

	memcpy(line, text, len);
	for (char *at = line; *at; at++)
		if ((unsigned char)*at < ' ')
			*at = ' ';
	return line;
}

static int probe(struct hotcell *h, const struct tool *tool, enum isolation_kind kind,
	bool *ret_works, char **ret_version, struct err *e)
{
	const struct strings *command =
		tool_command(&tool->candidate->version, &tool->language->version);
	struct expansion x = {
		.program = tool->program, .file = "", .out = "", .drivers = "", .workspace = ""
	};
	char **argv = command_expand(command, &x);
	struct hotcell_result *result = NULL;
	int failed = run_command(h, tool, kind, argv, &result, e);

	strings_free(argv);
	if (failed)
		return -1;
	/* That the cell broke says nothing about the program. */
	if (result->reason == HOTCELL_CELL_FAILED) {
		err_set(e, ERR_SYSTEM, "%s", result->reason_text);
		hotcell_result_free(result);
		return -1;
	}
	*ret_works = result->reason == HOTCELL_EXITED && result->exit_code == 0;
	/* Some print it on stderr. */
	*ret_version = first_line(result->out.len ? result->out.data : result->err.data);
	hotcell_result_free(result);
	return 0;
}

static unsigned count_existing(const struct language *language)
{
	unsigned count = 0;

	for (unsigned i = 0; i < language->find_count; i++) {
		auto_free char *program = candidate_resolve(&language->find[i]);

		count += program != NULL;
	}
	return count;
}

static int try_candidate(struct hotcell *h, struct tool *tool, bool must_know,
	enum isolation_kind kind, bool *ret_works, struct err *e)
{
	const struct strings *command =
		tool_command(&tool->candidate->version, &tool->language->version);
	auto_free char *words = join(command);
	const char *version = NULL;

	*ret_works = true;
	if (probe_cache_get(h->cache, tool->program, words, ret_works, &version)) {
		tool->version = version ? xstrdup(version) : NULL;
		return 0;
	}
	if (!must_know || h->never_waits)
		return 0;
	if (probe(h, tool, kind, ret_works, &tool->version, e))
		return -1;
	probe_cache_set(h->cache, tool->program, words, *ret_works, tool->version);
	return 0;
}

/* ---- what was found a moment ago ---- */

enum { FRESH_US = 1000000 };

/* Looking for a program takes as long as a warm run. */
struct found {
	struct tool tool;
	int64_t at_us;
};

static struct found *find_slot(struct hotcell *h, const struct language *language)
{
	unsigned count = registry_count(h->registry);

	if (!h->found)
		h->found = xalloc(count * sizeof(*h->found));
	for (unsigned i = 0; i < count; i++)
		if (registry_at(h->registry, i) == language)
			return &h->found[i];
	return NULL;
}

static char **copy_needs(char **needs)
{
	size_t count = 0;
	char **copy;

	if (!needs)
		return NULL;
	while (needs[count])
		count++;
	copy = xalloc((count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = xstrdup(needs[i]);
	return copy;
}

static void copy_tool(const struct tool *from, struct tool *ret)
{
	*ret = (struct tool){
		.language = from->language,
		.candidate = from->candidate,
		.program = xstrdup(from->program),
		.version = from->version ? xstrdup(from->version) : NULL,
		.needs = copy_needs(from->needs),
	};
}

void tool_forget_all(struct hotcell *h)
{
	for (unsigned i = 0; h->found && i < registry_count(h->registry); i++)
		tool_free(&h->found[i].tool);
	free(h->found);
	h->found = NULL;
}

static int find_now(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e);

int tool_find(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e)
{
	struct found *slot = want_version ? NULL : find_slot(h, language);

	if (slot && slot->at_us && clock_now_us() - slot->at_us < FRESH_US) {
		copy_tool(&slot->tool, ret);
		return 0;
	}
	if (find_now(h, language, want_version, kind, ret, e))
		return -1;
	if (slot) {
		tool_free(&slot->tool);
		copy_tool(ret, &slot->tool);
		slot->at_us = clock_now_us();
	}
	return 0;
}

static int find_now(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e)
{
	/* With one candidate there is nothing to choose: it is used, and says itself if it fails. */
	bool must_know = want_version || count_existing(language) > 1;

	for (unsigned i = 0; i < language->find_count; i++) {
		struct tool tool = { .language = language, .candidate = &language->find[i] };
		bool works;

		tool.program = candidate_resolve(tool.candidate);
		if (!tool.program)
			continue;
		tool.needs = language_needs(language, tool.candidate);
		if (try_candidate(h, &tool, must_know, kind, &works, e)) {
			tool_free(&tool);
			return -1;
		}
		if (works) {
			*ret = tool;
			return 0;
		}
		tool_free(&tool);
	}
	return err_set(e, ERR_NOT_FOUND, "%s is not installed%s%s", language->name,
		language->install ? ": " : "", language->install ? language->install : "");
}

void tool_free(struct tool *tool)
{
	free(tool->program);
	free(tool->version);
	if (tool->needs)
		strings_free(tool->needs);
	*tool = (struct tool){ .language = tool->language, .candidate = tool->candidate };
}

bool tool_compiles(const struct tool *tool)
{
	return tool_command(&tool->candidate->compile, &tool->language->compile)->count > 0;
}
