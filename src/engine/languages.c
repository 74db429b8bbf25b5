/* What callers see of the languages that there are. */
#include "engine/snapshot.h"

#include "base/own.h"

static const char *const *list_of(const struct strings *strings)
{
	const char **list = xalloc((strings->count + 1) * sizeof(*list));

	for (unsigned i = 0; i < strings->count; i++)
		list[i] = strings->at[i];
	return list;
}

static const char *const *profiles_of(const struct hotcell *h, const struct language *l)
{
	const char **list = xalloc((l->profiles_count + 1) * sizeof(*list));

	for (unsigned i = 0; h->drivers_dir && i < l->profiles_count; i++)
		list[i] = l->profiles[i].name;
	return list;
}

/* With the program that was found, or, if none was, with any. */
static bool compiles(const struct language *l, const struct tool *tool)
{
	bool any = l->compile.count > 0;

	if (tool->candidate)
		return tool_compiles(tool);
	for (unsigned i = 0; i < l->find_count; i++)
		any |= l->find[i].compile.count > 0;
	return any;
}

static int describe(
	struct hotcell *h, const struct language *l, struct hotcell_language *ret, struct err *e)
{
	struct tool tool = { 0 };

	*ret = (struct hotcell_language){
		.id = l->id,
		.name = l->name,
		.vm = l->vm == LANGUAGE_VM_YES,
		.profiles = profiles_of(h, l),
		.aliases = list_of(&l->aliases),
		.extensions = list_of(&l->endings),
		.install = l->install ? l->install : "",
		.path = l->path,
	};
	ret->installed = tool_find(h, l, true, ISOLATION_CONTAINER, &tool, e) == 0;
	ret->version = take_ptr(&tool.version);
	ret->compiles = compiles(l, &tool);
	ret->last_line = tool.candidate &&
			 tool_command(&tool.candidate->last_line, &l->last_line)->count > 0;
	ret->keeps_state = ret->installed && l->keeps_state != LANGUAGE_KEEPS_NO &&
			   driver_is_possible(h, &tool);
	tool_free(&tool);
	return ret->installed || e->kind == ERR_NOT_FOUND ? 0 : -1;
}

int hotcell_languages(struct hotcell *h, struct hotcell_language **ret, size_t *ret_count,
	struct hotcell_error *error)
{
	size_t count = registry_count(h->registry);
	struct hotcell_language *all = xalloc((count + 1) * sizeof(*all));

	for (size_t i = 0; i < count; i++) {
		struct err e = { 0 };

		if (describe(h, registry_at(h->registry, (unsigned)i), &all[i], &e)) {
			hotcell_languages_free(all, count);
			error_out(error, &e);
			return -1;
		}
	}
	*ret = all;
	*ret_count = count;
	return 0;
}

static void free_list(const char *const *list)
{
	free((void *)(uintptr_t)list);
}

void hotcell_languages_free(struct hotcell_language *languages, size_t count)
{
	for (size_t i = 0; languages && i < count; i++) {
		free(languages[i].version);
		free_list(languages[i].profiles);
		free_list(languages[i].aliases);
		free_list(languages[i].extensions);
	}
	free(languages);
}
