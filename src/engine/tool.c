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

char **tool_version_command(const struct tool *tool)
{
	struct expansion x = {
		.program = tool->program, .file = "", .out = "", .drivers = "", .workspace = ""
	};

	return command_expand(
		tool_command(&tool->candidate->version, &tool->language->version), &x);
}

static char *version_words(const struct tool *tool)
{
	return join(tool_command(&tool->candidate->version, &tool->language->version));
}

int tool_learn(
	struct hotcell *h, struct tool *tool, const struct hotcell_result *result, struct err *e)
{
	auto_free char *words = version_words(tool);
	bool works = result->reason == HOTCELL_EXITED && result->exit_code == 0;

	/* That the cell broke says nothing about the program. */
	if (result->reason == HOTCELL_CELL_FAILED)
		return err_set(e, ERR_SYSTEM, "%s", result->reason_text);
	free(tool->version);
	/* Some print it on stderr. */
	tool->version = first_line(result->out.len ? result->out.data : result->err.data);
	probe_cache_set(h->cache, tool->program, words, works, tool->version);
	return works;
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

/* Whether it works: 1, 0, or -1 if that is not known. */
static int recall(struct hotcell *h, struct tool *tool)
{
	auto_free char *words = version_words(tool);
	const char *version = NULL;
	bool works;

	if (!probe_cache_get(h->cache, tool->program, words, &works, &version))
		return -1;
	tool->version = version ? xstrdup(version) : NULL;
	return works;
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

void tool_copy(const struct tool *from, struct tool *ret)
{
	*ret = (struct tool){
		.language = from->language,
		.candidate = from->candidate,
		.program = xstrdup(from->program),
		.version = from->version ? xstrdup(from->version) : NULL,
		.needs = copy_needs(from->needs),
	};
}

void tool_forget(struct hotcell *h, const struct language *language)
{
	struct found *slot = find_slot(h, language);

	if (slot)
		slot->at_us = 0;
}

void tool_forget_all(struct hotcell *h)
{
	for (unsigned i = 0; h->found && i < registry_count(h->registry); i++)
		tool_free(&h->found[i].tool);
	free(h->found);
	h->found = NULL;
}

int tool_find(struct hotcell *h, const struct language *language, bool want_version,
	enum isolation_kind kind, struct tool *ret, struct err *e)
{
	struct found *slot = want_version ? NULL : find_slot(h, language);
	int found;

	if (slot && slot->at_us && clock_now_us() - slot->at_us < FRESH_US) {
		tool_copy(&slot->tool, ret);
		return 0;
	}
	found = tool_look(h, language, want_version, 0, ret, e);
	if (found == TOOL_UNKNOWN && !h->never_waits) {
		tool_free(ret);
		found = prepare_tool(h, language, want_version, kind, ret, e);
	}
	if (found < 0)
		return -1;
	if (slot) {
		tool_free(&slot->tool);
		tool_copy(ret, &slot->tool);
		slot->at_us = clock_now_us();
	}
	return 0;
}

int tool_look(struct hotcell *h, const struct language *language, bool want_version, unsigned from,
	struct tool *ret, struct err *e)
{
	/* With one candidate there is nothing to choose: it is used, and says itself if it fails. */
	bool must_know = want_version || count_existing(language) > 1;

	for (unsigned i = from; i < language->find_count; i++) {
		struct tool tool = { .language = language, .candidate = &language->find[i] };
		int works;

		tool.program = candidate_resolve(tool.candidate);
		if (!tool.program)
			continue;
		tool.needs = language_needs(language, tool.candidate);
		works = recall(h, &tool);
		if (works != 0) {
			*ret = tool;
			return works < 0 && must_know ? TOOL_UNKNOWN : 0;
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
