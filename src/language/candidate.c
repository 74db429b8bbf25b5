#include "language/language.h"

#include "base/own.h"
#include "base/path.h"

#include <glob.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

const char *const language_program_dirs[] = { "/usr/local/bin", "/usr/bin", "/bin", NULL };

/* "~/x" below the home directory; anything else as it is. NULL if there is no home. */
static char *replace_home(const char *path)
{
	const char *home = getenv("HOME");
	const struct passwd *user;

	if (strncmp(path, "~/", 2) != 0)
		return xstrdup(path);
	if (!home || home[0] != '/') {
		user = getpwuid(geteuid());
		home = user ? user->pw_dir : NULL;
	}
	return home && home[0] == '/' ? path_join(home, path + 2) : NULL;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *find_bare(const char *name)
{
	for (size_t i = 0; language_program_dirs[i]; i++) {
		auto_free char *path = path_join(language_program_dirs[i], name);

		if (is_program(path))
			return take_ptr(&path);
	}
	return NULL;
}

static char *find_program(const char *name)
{
	auto_free char *path = NULL;

	if (!strchr(name, '/'))
		return find_bare(name);
	path = replace_home(name);
	/* A relative path would depend on where hotcell was started. */
	if (!path || path[0] != '/' || !is_program(path))
		return NULL;
	return take_ptr(&path);
}

char *candidate_resolve(const struct candidate *c)
{
	for (unsigned i = 0; i < c->also.count; i++) {
		auto_free char *also = find_program(c->also.at[i]);

		if (!also)
			return NULL;
	}
	return find_program(c->program);
}

struct paths {
	char **at;
	size_t count;
};

static void add_once(struct paths *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->at[i], path) == 0)
			return;
	p->at = xgrow(p->at, (p->count + 2) * sizeof(*p->at));
	p->at[p->count++] = xstrdup(path);
	p->at[p->count] = NULL;
}

static void add_needs(struct paths *p, const struct strings *needs)
{
	for (unsigned i = 0; i < needs->count; i++) {
		auto_free char *pattern = replace_home(needs->at[i]);
		glob_t found;

		/* glob() gives only what is there, for patterns and for plain paths alike. */
		if (!pattern || glob(pattern, 0, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			add_once(p, found.gl_pathv[k]);
		globfree(&found);
	}
}

char **language_needs(const struct language *l, const struct candidate *c)
{
	struct paths p = { .at = xalloc(sizeof(char *)) };

	add_needs(&p, &l->needs);
	if (c)
		add_needs(&p, &c->needs);
	return p.at;
}
