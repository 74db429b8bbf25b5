/* language: what languages/<id>.yaml says, as structs.
 *
 * No C file knows a language's name: everything that differs between languages stands in these
 * structs. This layer reads files and looks for programs by name; it never starts a program. The
 * engine does that, in a cell, and keeps what it learned in the probe cache (cache.h). */
#ifndef HOTCELL_LANGUAGE_LANGUAGE_H
#define HOTCELL_LANGUAGE_LANGUAGE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A NULL-free list of strings, as libcyaml loads it. */
struct strings {
	char **at;
	unsigned count;
};

/* One way to have the language: the first candidate whose programs exist and whose version command
 * ends with 0 is taken. Empty commands fall back on those of the language. */
struct candidate {
	char *program;          /* "/usr/bin/python3", "~/.nvm/x/bin/node", or a bare name that is
	                          * looked for in the directories that a cell sees */
	struct strings also;    /* other programs that must exist too: javac beside java */
	struct strings version; /* command whose first line of output is the version */
	struct strings compile;
	struct strings run;
	struct strings last_line;
	struct strings warm;
	struct strings needs; /* further host paths that the cell must see, read-only; "~/" and
	                          * wildcards are fine: see language_needs() */
};

/* What a compile step may use. 0 = as much as the run. */
struct compile_limits {
	uint64_t timeout_s;
	uint64_t memory_mb;
	uint64_t processes;
};

/* Whether its programs are known to run as guests of hotcell-vmm. */
enum language_vm { LANGUAGE_VM_NO, LANGUAGE_VM_YES };

/* Whether its driver can keep an interpreter's state between runs; or is there for that only. */
enum language_keeps { LANGUAGE_KEEPS_NO, LANGUAGE_KEEPS_YES, LANGUAGE_KEEPS_ONLY };

/* What a warm machine has loaded before a program comes: the first profile, unless the program's text
 * has one of the words of another. */
struct profile {
	char *name;
	struct strings modules;
	struct strings words;
};

struct language {
	char *id;
	char *name; /* as people write it: "C++" */
	struct strings aliases;
	char *file;              /* what code given as text is called in the workspace */
	struct strings endings;  /* ".py": how the language of a file is guessed */
	struct strings shebangs; /* "python3": the same for a first line with #! */
	char *install;           /* what to tell who has not got it: "apt install python3" */
	struct candidate *find;
	unsigned find_count;
	struct strings version;
	struct strings compile; /* none = nothing to compile */
	struct compile_limits compile_limits;
	struct strings run;
	struct strings last_line; /* runs the code and echoes the value of a last expression */
	struct strings env;       /* "NAME=value", added to the cell's environment; expanded too */
	struct strings needs;
	uint64_t memory_mb; /* the least that a run needs, where the default is too little */
	uint64_t processes; /* likewise */
	enum language_vm vm;
	struct strings warm; /* command of its driver, which waits for programs; {args} = modules */
	enum language_keeps keeps_state;
	char *rehearsal; /* a small program that a warm machine runs before the first real one */
	struct profile *profiles;
	unsigned profiles_count;
	char *driver; /* name under drivers/ of its warm driver, where there is one */
	struct strings dependencies; /* command that installs packages; reserved */
	char *path;                  /* the YAML file this came from (not in the file) */
};

struct registry;

/* The files in `dirs` (the last one wins where two have the same id). A wrong file is left out and
 * told to on_problem as "file:line: key: what is wrong"; a directory that is not there is no
 * problem. Never fails. */
struct registry *registry_load(const char *const *dirs, unsigned dirs_count,
	void (*on_problem)(void *context, const char *text), void *context);
/* Only `dir`/`id`.yaml, for who knows what it wants: NULL if it is not there or wrong, and whether
 * another file claims the same id is not looked at. */
struct registry *registry_load_one(const char *dir, const char *id);
void registry_free(struct registry *r);

/* Where a user has languages of their own; to be freed. NULL if there is no home. */
char *language_user_dir(void);

unsigned registry_count(const struct registry *r);
const struct language *registry_at(const struct registry *r, unsigned i); /* sorted by id */

/* By id or alias, in any case of letters. NULL with *e "unknown language 'X'" (and, if there is a
 * near one, "; did you mean Y?"). */
const struct language *registry_find(const struct registry *r, const char *name, struct err *e);

/* By the ending of `path`, else by a first line "#!/usr/bin/env NAME" or "#!/path/NAME" in `code`
 * (a version behind the name is ignored: python3.11 is python3). NULL if neither tells. */
const struct language *registry_guess(
	const struct registry *r, const char *path, const char *code, size_t code_len);

/* Where a bare program name is looked for: what a cell sees. NULL-terminated. */
extern const char *const language_program_dirs[];

/* The candidate's program, absolute and with "~" replaced, if it and all of `also` exist and are
 * executable; else NULL. To be freed. */
char *candidate_resolve(const struct candidate *c);

/* What a cell must see of the host beside /usr to run `l` by way of `c` (a member of l->find, or
 * NULL): the `needs` of both with "~" and wildcards replaced, each once, without what is not there.
 * NULL-terminated, to be freed with strings_free(). */
char **language_needs(const struct language *l, const struct candidate *c);

/* Replaces in each word of `command`: {program} {file} {out} {args} {drivers} {workspace} {tmp}
 * {memory_mb}. A word that is exactly "{args}" becomes all of `args` (none: nothing); inside a
 * longer word they are joined with spaces. An unknown {name}, or one whose value is NULL, is left
 * as it is; what was put in is not looked at again. Returns a NULL-terminated array to be freed
 * with strings_free(). */
struct expansion {
	const char *program;
	const char *file;        /* the entry file, relative to the workspace */
	const char *out;         /* where a compiler leaves its program */
	const char *drivers;     /* where drivers/ is inside the cell */
	const char *workspace;   /* the workspace inside the cell */
	const char *tmp;         /* where it may keep what nobody will look at */
	const char *const *args; /* NULL-terminated or NULL */
	uint64_t memory_mb;      /* the cell's limit, for runtimes that size their heap by it;
	                        * 0 = LANGUAGE_MEMORY_MB */
};
enum { LANGUAGE_MEMORY_MB = 512 };

char **command_expand(const struct strings *command, const struct expansion *x);
void strings_free(char **list);

#endif
