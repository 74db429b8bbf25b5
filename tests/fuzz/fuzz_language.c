/* A language file that somebody wrote. It loads, or a sentence with the file's name says why not. */
#include "fuzz.h"

#include "language/language.h"
#include "language/schema.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void use(const struct language *l)
{
	static const char *const args[] = { "one", "two", NULL };
	const struct expansion x = { .program = "/bin/p",
		.file = "f",
		.out = "o",
		.drivers = "/d",
		.workspace = "/w",
		.args = args };
	const struct strings *const commands[] = { &l->version, &l->compile, &l->run,
		&l->last_line };

	CLAIM(l->id && l->id[0] && l->file && l->find_count > 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		strings_free(command_expand(commands[i], &x));
	for (unsigned i = 0; i < l->find_count; i++) {
		free(candidate_resolve(&l->find[i]));
		strings_free(command_expand(&l->find[i].run, &x));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	struct language *l;
	char path[64];
	int fd = memfd_create("language", MFD_CLOEXEC);

	CLAIM(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	l = schema_load(path, &e);
	if (l)
		use(l);
	else
		CLAIM(strstr(e.text, path));
	schema_free(l);
	close(fd);
	return 0;
}
