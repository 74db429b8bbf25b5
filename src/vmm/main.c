/* hotcell-vmm: runs one program as the guest of a virtual machine that has no kernel. wire/vmm_start.h
 * says how it is started; docs/VM.md how it works. */
#include "base/buf.h"
#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/dirty.h"
#include "vmm/elf.h"
#include "vmm/fds.h"
#include "vmm/filter.h"
#include "vmm/guest.h"
#include "vmm/mother.h"
#include "vmm/pids.h"
#include "vmm/probe.h"
#include "vmm/process.h"
#include "vmm/processor.h"
#include "vmm/signal.h"
#include "vmm/snapshot.h"
#include "vmm/stats.h"
#include "vmm/tables.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "vmm/trace.h"
#include "vmm/warm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FAILED = 125, MEMORY_DEFAULT = 512 << 20 };

struct options {
	uint64_t open_files;
	uint64_t memory_bytes;
	uint64_t address_space;
	uint64_t processes;
	uint64_t ignored;
	uint64_t blocked;
	const char *specials;
	int program_fd; /* what to run, if it has no name; -1 = it has one */
	enum warm_mode warm;
	bool is_known_host;
	bool is_pvm;
	bool traces;
	bool for_one_run;
	bool is_mother; /* of machines for one run each */
};

static struct guest the_guest = { .cpu = { .vm_fd = -1, .fd = -1 } };

static _Noreturn void fail(const char *format, const char *what)
{
	fprintf(stderr, "hotcell-vmm: ");
	fprintf(stderr, format, what); // NOLINT(clang-diagnostic-format-nonliteral)
	fputc('\n', stderr);
	_exit(FAILED);
}

static bool take_option(struct options *o, const char *word)
{
	unsigned long long x;
	unsigned long long y;
	int pid;
	int shown;
	char host[16];

	if (sscanf(word, "--open-files=%llu", &x) == 1)
		o->open_files = x < VMM_GUEST_FDS ? x : VMM_GUEST_FDS;
	else if (sscanf(word, "--memory=%llu", &x) == 1)
		o->memory_bytes = x;
	else if (sscanf(word, "--processes=%llu", &x) == 1)
		o->processes = x;
	else if (sscanf(word, "--address-space=%llu", &x) == 1)
		o->address_space = x;
	else if (sscanf(word, "--signals=%llx,%llx", &x, &y) == 2) {
		o->ignored = x;
		o->blocked = y;
	} else if (sscanf(word, "--host=%15[a-z],%llu", host, &x) == 2) {
		o->is_known_host = true;
		o->is_pvm = strcmp(host, "pvm") == 0;
		tick_set_ns_per_tsc_32(x);
	} else if (sscanf(word, "--rate=%llu", &x) == 1 && x)
		tick_set_ns_per_tsc_32(x);
	else if (sscanf(word, "--shown=%d,%d", &pid, &shown) == 2)
		pids_set(pid, shown);
	else if (sscanf(word, "--program-fd=%d", &pid) == 1)
		o->program_fd = pid;
	else if (strncmp(word, "--special=", 10) == 0)
		o->specials = word + 10;
	else if (strncmp(word, "--features=", 11) == 0)
		processor_load_features(word + 11);
	else if (strcmp(word, "--trace") == 0)
		o->traces = true;
	else if (strcmp(word, "--make-snapshot") == 0)
		o->warm = WARM_MAKES_SNAPSHOT;
	else if (strcmp(word, "--once") == 0)
		o->for_one_run = true;
	else if (strcmp(word, "--mother") == 0)
		o->for_one_run = o->is_mother = true;
	else if (strcmp(word, "--from-snapshot") == 0)
		o->warm = WARM_SERVES;
	else
		return false;
	return true;
}

/* Room for four times what it may use: addresses are handed out 2 MiB at a time, and what counts is
 * what is touched, which the cell's own limit holds. A file that is mapped takes room, too, however
 * little of it is looked at. */
static uint64_t memory_size(uint64_t limit)
{
	uint64_t size = limit * 4 < (16UL << 30) ? 16UL << 30 : limit * 4;

	return size < MEMORY_MAX ? size : MEMORY_MAX;
}

static void make_threads(struct guest *g)
{
	g->threads = mmap(NULL, THREADS_MAX * sizeof(struct thread), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->threads == MAP_FAILED)
		fail("no memory for %s", "threads");
}

static void set_up(struct guest *g, const struct options *o)
{
	struct err e = { 0 };

	g->cpu.is_pvm = o->is_pvm;
	if (!o->is_known_host && probe_host(VMM_KVM_FD, &g->cpu.is_pvm, &e))
		fail("%s", e.text);
	make_threads(g);
	g->pid = pids_shown(getpid());
	g->open_files = g->open_files_max = o->open_files;
	g->processes = o->processes;
	g->memory_bytes = o->memory_bytes;
	g->open_files_most = o->open_files;
	g->address_space = g->address_space_most = o->address_space;
	g->traces = o->traces;
	g->keeps_output = !o->is_known_host; /* only another VMM tells it */
	g->current = thread_new(g);
	guest_thread(g)->tid = g->pid;
	guest_thread(g)->blocked = o->blocked;
	for (int n = 1; n <= SIGNALS_MAX; n++)
		if (o->ignored & 1ULL << (n - 1))
			g->actions[n].handler = 1;
	if (vcpu_open(&g->cpu, VMM_KVM_FD, &e) ||
		mem_open(&g->mem, memory_size(o->memory_bytes), &e))
		fail("%s", e.text);
	tables_init(&g->mem, g->cpu.is_pvm);
	if (o->specials)
		special_load(o->specials);
}

static void start(struct guest *g, int program_fd, const char *path, const char *const *argv,
	const char *const *environment)
{
	static struct elf_program program;
	struct err e = { 0 };
	const char *name;
	int result = elf_resolve_fd(program_fd, path, argv, &program);

	if (result == 0)
		result = elf_load(g, &program, environment);
	if (program_fd >= 0)
		close(program_fd);
	if (result) {
		fprintf(stderr, "hotcell-vmm: cannot start '%s': %s\n", path, strerror(-result));
		_exit(FAILED);
	}
	name = strrchr(program.path, '/');
	/* As the kernel shows it: loaders find libraries by it. */
	if (!realpath(program.path, g->exe))
		memcpy(g->exe, program.path, sizeof(program.path));
	snprintf(g->comm, sizeof(g->comm), "%.15s", name ? name + 1 : program.path);
	g->argv = program.argv;
	g->environment = environment;
	if (mem_attach(&g->mem, &g->cpu, &e))
		fail("%s", e.text);
}

static _Noreturn void run(struct guest *g, const struct options *o)
{
	struct err e = { 0 };
	bool is_warm = o->warm == WARM_SERVES;

	/* From here on nothing is done but serving the guest. Who is told of the host by another VMM
	 * has that one's filter, and so has a mother's child. */
	if (!o->is_known_host && !o->is_mother && filter_install(&e))
		fail("%s", e.text);
	signal_open(g);
	tick_open();
	if (!is_warm)
		tick_start();
	guest_set_clock(g);
	guest_shared(g)->every_call_leaves = g->traces;
	file_update_output(g);
	thread_publish(g);
	if (g->traces && !o->is_known_host)
		trace_start(g);
	guest_run(g);
}

static _Noreturn void serve_from_snapshot(struct guest *g, const struct options *o)
{
	struct err e = { 0 };

	make_threads(g);
	g->open_files = g->open_files_max = o->open_files;
	g->processes = o->processes;
	g->memory_bytes = o->memory_bytes;
	if (snapshot_open(g, VMM_SNAPSHOT_FD, memory_size(o->memory_bytes), &e))
		fail("%s", e.text);
	if (o->is_mother) {
		if (filter_install(&e))
			fail("%s", e.text);
		mother_serve();
	}
	if (dirty_open(VMM_PROC_FD, &e))
		fail("%s", e.text);
	close(VMM_PROC_FD);
	warm_open(g, WARM_SERVES);
	if (snapshot_begin(g, o->for_one_run, &e))
		fail("%s", e.text);
	guest_thread(g)->waits = false;
	guest_thread(g)->tries_again = true;
	run(g, o);
}

static _Noreturn void tell_host(void)
{
	struct err e = { 0 };
	bool is_pvm;

	if (probe_host(VMM_KVM_FD, &is_pvm, &e))
		fail("%s", e.text);
	puts(probe_name(is_pvm));
	exit(0);
}

int main(int argc, char **argv)
{
	struct options options = {
		.open_files = 256,
		.memory_bytes = MEMORY_DEFAULT,
		.address_space = RLIM_INFINITY,
		.program_fd = -1,
	};
	struct guest *g = &the_guest;
	struct err e = { 0 };
	const char **environment;
	unsigned long count;
	char *end;
	int at = 1;

	if (argc == 2 && strcmp(argv[1], "--tell-host") == 0)
		tell_host();
	while (at < argc && strncmp(argv[at], "--", 2) == 0)
		if (!take_option(&options, argv[at++]))
			fail("unknown option '%s'", argv[at - 1]);
	stats_open();
	g->nice = g->first_nice = getpriority(PRIO_PROCESS, 0);
	if (options.warm == WARM_SERVES)
		serve_from_snapshot(g, &options);
	if (at >= argc)
		fail("%s", "nothing to run");
	count = strtoul(argv[at], &end, 10);
	if (*end || count > (unsigned long)(argc - at) || (int)count + at + 2 > argc)
		fail("'%s' is not the number of variables", argv[at]);
	at++;
	environment = xalloc((count + 1) * sizeof(*environment));
	memcpy(environment, &argv[at], count * sizeof(*environment));
	at += (int)count;
	set_up(g, &options);
	start(g, options.program_fd, argv[at], (const char *const *)(uintptr_t)&argv[at + 1],
		environment);
	if (options.warm && dirty_open(VMM_PROC_FD, &e))
		fail("%s", e.text);
	if (options.warm)
		warm_open(g, options.warm);
	run(g, &options);
}
