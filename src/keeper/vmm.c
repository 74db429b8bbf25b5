#include "keeper/vmm.h"

#include "base/own.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { OWN_WORDS = 10, RATE_LEAST_NS = 1000000 };

/* ---- what is counted ---- */

static struct vmm_stats none;
static struct vmm_stats *stats = &none;

/* Sealed: whoever holds it could make it shorter, and we would fall over it. */
void vmm_open_stats(void)
{
	auto_close int fd = memfd_create("stats", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *page;

	if (fd < 0 || ftruncate(fd, sizeof(*stats)) ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return;
	page = mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED && dup3(fd, VMM_STATS_FD, O_CLOEXEC) >= 0)
		stats = page;
}

void vmm_clear_stats(void)
{
	vmm_stats_clear(stats);
}

/* Whoever got out of his machine may have written anything there. */
void vmm_read_stats(struct vm_counts *ret)
{
	*ret = (struct vm_counts){
		.exits = atomic_load(&stats->exits),
		.unknown_calls = atomic_load(&stats->unknown_calls),
	};
	memcpy(ret->missing_call, stats->missing_call, VMM_CALL_NAME_MAX);
	ret->missing_call[call_name_length(ret->missing_call, VMM_CALL_NAME_MAX - 1)] = '\0';
}

/* ---- memory for one machine after the other ---- */

static bool has_spare;

/* Sealed for the same reason. */
void vmm_open_spare(void)
{
	auto_close int fd = -1;

	if (has_spare)
		return;
	fd = memfd_create("spare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	has_spare = fd >= 0 && ftruncate(fd, VMM_SPARE_SIZE) == 0 &&
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
		    dup3(fd, VMM_SPARE_FD, O_CLOEXEC) >= 0;
}

/* ---- its command ---- */

/* One at a time, as the keeper runs programs; written before vfork, whose child may write nothing. */
static const char *words[EXEC_WORDS_MAX + OWN_WORDS];

/* Its name and what its guest may use. Returns the number of words. */
static size_t write_limits(const struct msg_exec *exec)
{
	static char open_files[40];
	static char memory[40];
	static char processes[40];
	uint64_t files = exec->open_files && exec->open_files < VMM_GUEST_FDS ? exec->open_files :
										VMM_GUEST_FDS;
	size_t at = 0;

	snprintf(open_files, sizeof(open_files), "--open-files=%" PRIu64, files);
	snprintf(memory, sizeof(memory), "--memory=%" PRIu64, exec->memory_bytes);
	snprintf(processes, sizeof(processes), "--processes=%" PRIu64, exec->processes);
	words[at++] = "hotcell-vmm";
	words[at++] = open_files;
	if (exec->memory_bytes)
		words[at++] = memory;
	if (exec->processes)
		words[at++] = processes;
	return at;
}

const char *const *vmm_write_command(
	const struct msg_exec *exec, const struct keeper_options *options)
{
	static char env_count[16];
	static char rate_text[40];
	uint64_t rate = options->started ? tsc_rate_32(options->started, RATE_LEAST_NS) : 0;
	size_t at = write_limits(exec);

	snprintf(rate_text, sizeof(rate_text), "--rate=%" PRIu64, rate);

	snprintf(env_count, sizeof(env_count), "%" PRIu32, exec->env_count);
	if (exec->trace)
		words[at++] = "--trace";
	if (exec->warm == EXEC_SNAPSHOT)
		words[at++] = "--make-snapshot";
	if (rate)
		words[at++] = rate_text;
	words[at++] = env_count;
	for (uint32_t i = 0; i < exec->env_count; i++)
		words[at++] = exec_env(exec)[i];
	words[at++] = exec_argv(exec)[0];
	for (uint32_t i = 0; i < exec->argv_count; i++)
		words[at++] = exec_argv(exec)[i];
	words[at] = NULL;
	return words;
}

const char *const *vmm_write_warm_command(const struct msg_exec *exec, bool is_mother)
{
	size_t at = write_limits(exec);

	if (is_mother)
		words[at++] = "--mother";
	else if (exec->warm == EXEC_WARM_START_ONCE)
		words[at++] = "--once";
	words[at++] = "--from-snapshot";
	words[at] = NULL;
	return words;
}

/* `given` stays open in the VMM at that number. */
static bool place(int given, int number)
{
	return given < 0 || dup2(given, number) >= 0;
}

int vmm_become(const struct msg_exec *exec, const struct vmm_fds *fds)
{
	static const char *const no_environment[] = { NULL };

	if (fcntl(VMM_KVM_FD, F_SETFD, 0) || fcntl(VMM_SELF_FD, F_SETFD, 0))
		return errno;
	fcntl(VMM_PROC_FD, F_SETFD, 0); /* these may be absent */
	fcntl(VMM_STATS_FD, F_SETFD, 0);
	/* Nobody else has it, and nobody before him is alive. */
	if (has_spare && exec->warm == EXEC_WARM_START_ONCE)
		fcntl(VMM_SPARE_FD, F_SETFD, 0);
	if (!place(fds->warm, VMM_WARM_FD) || !place(fds->line, VMM_LINE_FD) ||
		!place(fds->snapshot, VMM_SNAPSHOT_FD) || !place(fds->mother, VMM_MOTHER_FD))
		return errno;
	syscall(SYS_execveat, VMM_SELF_FD, "", words, no_environment, AT_EMPTY_PATH);
	return errno;
}
