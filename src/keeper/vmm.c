#include "keeper/vmm.h"

#include "base/own.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>

enum { OWN_WORDS = 8 };

/* One at a time, as the keeper runs programs; written before vfork, whose child may write nothing. */
static const char *words[EXEC_WORDS_MAX + OWN_WORDS];

const char *const *vmm_write_command(const struct msg_exec *exec)
{
	static char open_files[40];
	static char memory[40];
	static char env_count[16];
	uint64_t files = exec->open_files && exec->open_files < VMM_GUEST_FDS ? exec->open_files :
										VMM_GUEST_FDS;
	size_t at = 0;

	snprintf(open_files, sizeof(open_files), "--open-files=%" PRIu64, files);
	snprintf(memory, sizeof(memory), "--memory=%" PRIu64, exec->memory_bytes);
	snprintf(env_count, sizeof(env_count), "%" PRIu32, exec->env_count);
	words[at++] = "hotcell-vmm";
	words[at++] = open_files;
	if (exec->memory_bytes)
		words[at++] = memory;
	if (exec->trace)
		words[at++] = "--trace";
	words[at++] = env_count;
	for (uint32_t i = 0; i < exec->env_count; i++)
		words[at++] = exec_env(exec)[i];
	words[at++] = exec_argv(exec)[0];
	for (uint32_t i = 0; i < exec->argv_count; i++)
		words[at++] = exec_argv(exec)[i];
	words[at] = NULL;
	return words;
}

int vmm_become(void)
{
	static const int given[] = { VMM_KVM_FD, VMM_SELF_FD, VMM_PROC_FD };
	static const char *const no_environment[] = { NULL };

	/* The last may be absent. */
	for (size_t i = 0; i < COUNT(given); i++)
		if (fcntl(given[i], F_SETFD, 0) && given[i] != VMM_PROC_FD)
			return errno;
	syscall(SYS_execveat, VMM_SELF_FD, "", words, no_environment, AT_EMPTY_PATH);
	return errno;
}
