/* elf: programs, from file to first instruction. */
#ifndef HOTCELL_VMM_ELF_H
#define HOTCELL_VMM_ELF_H

#include "vmm/guest.h"

/* What execve() would start for `path`: itself, or the interpreter that its first line names, with
 * the arguments changed accordingly. All strings are the caller's or live as long as `p`. */
struct elf_program {
	char path[PATH_SIZE];
	const char **argv; /* NULL-terminated; freed by elf_program_close() */
	char line[2][256]; /* the first lines of scripts, which argv points into */
	char scripts[2][PATH_SIZE];
	int fd; /* where it is, if `path` is only what it is called; else -1. Not owned */
};

/* 0 or a negative errno, as execve() would give it. */
int elf_resolve(const char *path, const char *const *argv, struct elf_program *p);
/* The same for what a descriptor is: it need not have a name. */
int elf_resolve_fd(int fd, const char *path, const char *const *argv, struct elf_program *p);
void elf_program_close(struct elf_program *p);

/* Puts the program into empty memory and sets the current thread's registers. */
int elf_load(struct guest *g, const struct elf_program *p, const char *const *environment);

#endif
