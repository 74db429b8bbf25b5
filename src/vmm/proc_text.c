#include "vmm/proc_text.h"

#include "base/own.h"
#include "vmm/pids.h"
#include "vmm/started.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

/* ---- sizes ---- */

static uint64_t mapped_bytes(const struct guest *g, int kind)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < g->mem.areas_count; i++)
		if (kind < 0 || g->mem.areas[i].kind == kind)
			total += g->mem.areas[i].end - g->mem.areas[i].start;
	return total;
}

/* What has memory behind it: known by the block, which is near enough. */
static uint64_t resident_bytes(const struct guest *g)
{
	uint64_t bound = (uint64_t)g->mem.blocks_count * CHUNK;
	uint64_t mapped = mapped_bytes(g, -1);

	return bound < mapped ? bound : mapped;
}

static uint64_t cpu_ticks(bool is_system)
{
	struct rusage usage;
	struct timeval t;

	getrusage(RUSAGE_SELF, &usage);
	t = is_system ? usage.ru_stime : usage.ru_utime;
	return (uint64_t)t.tv_sec * 100 + (uint64_t)t.tv_usec / 10000;
}

/* ---- about the program ---- */

void text_exe(struct guest *g, struct buf *ret)
{
	buf_add_str(ret, g->exe);
}

void text_cwd(struct guest *g, struct buf *ret)
{
	char path[PATH_SIZE];

	(void)g;
	buf_add_str(ret, syscall(SYS_getcwd, path, sizeof(path)) < 0 ? "/" : path);
}

void text_root(struct guest *g, struct buf *ret)
{
	(void)g;
	buf_add_str(ret, "/");
}

void text_self(struct guest *g, struct buf *ret)
{
	buf_addf(ret, "%d", g->pid);
}

static const char *area_name(const struct guest *g, const struct area *a)
{
	if (a->name && a->name < g->mem.names_count)
		return g->mem.names[a->name];
	if (a->kind == AREA_HEAP)
		return "[heap]";
	return a->kind == AREA_STACK ? "[stack]" : "";
}

void text_maps(struct guest *g, struct buf *ret)
{
	for (uint32_t i = 0; i < g->mem.areas_count; i++) {
		const struct area *a = &g->mem.areas[i];
		const char *name = area_name(g, a);

		/* The name stands in column 73. */
		size_t start = ret->len;
		bool is_file = a->name != 0;

		buf_addf(ret, "%08llx-%08llx %c%c%c%c %08llx 00:%02x %u ",
			(unsigned long long)a->start, (unsigned long long)a->end,
			a->protection & PROT_READ ? 'r' : '-',
			a->protection & PROT_WRITE ? 'w' : '-',
			a->protection & PROT_EXEC ? 'x' : '-', a->kind == AREA_SHARED ? 's' : 'p',
			is_file ? (unsigned long long)a->offset : 0ULL, is_file ? 1 : 0, a->name);
		while (*name && ret->len - start < 73)
			buf_add_str(ret, " ");
		buf_addf(ret, "%s\n", name);
	}
}

static void add_signals(const struct guest *g, const struct thread *t, struct buf *ret)
{
	uint64_t ignored = 0;
	uint64_t caught = 0;

	for (int number = 1; number <= SIGNALS_MAX; number++) {
		if (g->actions[number].handler == (uint64_t)(uintptr_t)SIG_IGN)
			ignored |= 1ULL << (number - 1);
		else if (g->actions[number].handler)
			caught |= 1ULL << (number - 1);
	}
	buf_addf(ret, "SigQ:\t0/1000\nSigPnd:\t%016llx\nShdPnd:\t%016llx\nSigBlk:\t%016llx\n",
		(unsigned long long)t->pending, (unsigned long long)g->pending,
		(unsigned long long)t->blocked);
	buf_addf(ret, "SigIgn:\t%016llx\nSigCgt:\t%016llx\n", (unsigned long long)ignored,
		(unsigned long long)caught);
}

static void add_sizes(const struct guest *g, struct buf *ret)
{
	unsigned long long size = mapped_bytes(g, -1) / 1024;
	unsigned long long resident = resident_bytes(g) / 1024;
	unsigned long long file = mapped_bytes(g, AREA_FILE) / 1024;
	unsigned long long data =
		(mapped_bytes(g, AREA_ANONYMOUS) + mapped_bytes(g, AREA_HEAP)) / 1024;
	unsigned long long stack = mapped_bytes(g, AREA_STACK) / 1024;

	buf_addf(ret, "VmPeak:\t%8llu kB\nVmSize:\t%8llu kB\nVmLck:\t%8u kB\nVmPin:\t%8u kB\n",
		size, size, 0, 0);
	buf_addf(ret, "VmHWM:\t%8llu kB\nVmRSS:\t%8llu kB\nRssAnon:\t%8llu kB\n", resident,
		resident, resident);
	buf_addf(ret, "VmData:\t%8llu kB\nVmStk:\t%8llu kB\nVmExe:\t%8u kB\nVmLib:\t%8llu kB\n",
		data, stack, 4, file);
	buf_addf(ret, "VmPTE:\t%8u kB\nVmSwap:\t%8u kB\n", 64, 0);
}

void text_status(struct guest *g, struct buf *ret)
{
	const struct thread *t = guest_thread(g);
	mode_t mask = umask(0);

	umask(mask);
	buf_addf(ret, "Name:\t%s\nUmask:\t%04o\nState:\tR (running)\nTgid:\t%d\nNgid:\t0\n",
		g->comm, (unsigned)mask, g->pid);
	buf_addf(ret, "Pid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", t->tid, pids_shown(getppid()));
	buf_addf(ret, "Uid:\t%1$u\t%1$u\t%1$u\t%1$u\nGid:\t%2$u\t%2$u\t%2$u\t%2$u\n", getuid(),
		getgid());
	buf_addf(ret, "FDSize:\t%llu\nGroups:\t\n", (unsigned long long)g->open_files);
	add_sizes(g, ret);
	buf_addf(ret, "Threads:\t%d\n", g->threads_used);
	add_signals(g, t, ret);
	for (size_t i = 0; i < 5; i++)
		buf_addf(ret, "Cap%s:\t%016x\n",
			(const char *const[]){ "Inh", "Prm", "Eff", "Bnd", "Amb" }[i], 0);
	buf_add_str(ret, "NoNewPrivs:\t1\nSeccomp:\t2\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n"
			 "Mems_allowed:\t1\nMems_allowed_list:\t0\n"
			 "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n");
}

void text_stat(struct guest *g, struct buf *ret)
{
	/* 1 pid … 13 faults, 14 utime … 20 threads, 22 start, 23 vsize, 24 rss, … 52 exit code */
	buf_addf(ret, "%d (%s) R %d %d %d 0 -1 4194304 0 0 0 0 ", g->pid, g->comm,
		pids_shown(getppid()), pids_shown(getpgrp()), pids_shown(getsid(0)));
	buf_addf(ret, "%llu %llu 0 0 20 0 %d 0 1 ", (unsigned long long)cpu_ticks(false),
		(unsigned long long)cpu_ticks(true), g->threads_used);
	buf_addf(ret, "%llu %llu 18446744073709551615 ", (unsigned long long)mapped_bytes(g, -1),
		(unsigned long long)(resident_bytes(g) / PAGE));
	buf_add_str(ret, "0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
}

void text_statm(struct guest *g, struct buf *ret)
{
	buf_addf(ret, "%llu %llu %llu 1 0 %llu 0\n",
		(unsigned long long)(mapped_bytes(g, -1) / PAGE),
		(unsigned long long)(resident_bytes(g) / PAGE),
		(unsigned long long)(mapped_bytes(g, AREA_FILE) / PAGE),
		(unsigned long long)(mapped_bytes(g, AREA_ANONYMOUS) / PAGE));
}

void text_cmdline(struct guest *g, struct buf *ret)
{
	started_words(g, ret);
}

void text_environ(struct guest *g, struct buf *ret)
{
	started_environment(g, ret);
}

void text_comm(struct guest *g, struct buf *ret)
{
	buf_addf(ret, "%.15s\n", g->comm);
}

static void add_limit(struct buf *ret, uint64_t limit)
{
	if (limit == RLIM_INFINITY)
		buf_addf(ret, "%-21s", "unlimited");
	else
		buf_addf(ret, "%-21llu", (unsigned long long)limit);
}

void text_limits(struct guest *g, struct buf *ret)
{
	static const struct {
		__rlimit_resource_t which;
		const char *name;
		const char *unit;
	} limits[] = {
		{ RLIMIT_CPU, "Max cpu time", "seconds" },
		{ RLIMIT_FSIZE, "Max file size", "bytes" },
		{ RLIMIT_DATA, "Max data size", "bytes" },
		{ RLIMIT_STACK, "Max stack size", "bytes" },
		{ RLIMIT_CORE, "Max core file size", "bytes" },
		{ RLIMIT_RSS, "Max resident set", "bytes" },
		{ RLIMIT_NPROC, "Max processes", "processes" },
		{ RLIMIT_NOFILE, "Max open files", "files" },
		{ RLIMIT_MEMLOCK, "Max locked memory", "bytes" },
		{ RLIMIT_AS, "Max address space", "bytes" },
		{ RLIMIT_LOCKS, "Max file locks", "locks" },
		{ RLIMIT_SIGPENDING, "Max pending signals", "signals" },
		{ RLIMIT_MSGQUEUE, "Max msgqueue size", "bytes" },
		{ RLIMIT_NICE, "Max nice priority", "" },
		{ RLIMIT_RTPRIO, "Max realtime priority", "" },
		{ RLIMIT_RTTIME, "Max realtime timeout", "us" },
	};

	buf_addf(ret, "%-26s%-21s%-21s%-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

		if (limits[i].which == RLIMIT_NOFILE)
			limit = (struct rlimit){ g->open_files, g->open_files };
		else if (limits[i].which == RLIMIT_NPROC && g->processes)
			limit = (struct rlimit){ g->processes, g->processes };
		else
			getrlimit(limits[i].which, &limit);
		buf_addf(ret, "%-26s", limits[i].name);
		add_limit(ret, limit.rlim_cur);
		add_limit(ret, limit.rlim_max);
		buf_addf(ret, "%-10s\n", limits[i].unit);
	}
}

/* ---- about its machine ---- */

void text_meminfo(struct guest *g, struct buf *ret)
{
	unsigned long long total = g->memory_bytes / 1024;
	unsigned long long used = resident_bytes(g) / 1024;
	unsigned long long left = used < total ? total - used : 0;

	buf_addf(ret,
		"MemTotal:       %8llu kB\nMemFree:        %8llu kB\nMemAvailable:   %8llu kB\n",
		total, left, left);
	buf_addf(ret, "Buffers:        %8u kB\nCached:         %8u kB\nSwapCached:     %8u kB\n", 0,
		0, 0);
	buf_addf(ret, "Active:         %8llu kB\nInactive:       %8u kB\n", used, 0);
	buf_addf(ret, "SwapTotal:      %8u kB\nSwapFree:       %8u kB\nShmem:          %8u kB\n", 0,
		0, 0);
	buf_add_str(ret,
		"HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
}

static void split_seconds(unsigned long long *ret_s, unsigned long long *ret_hundredths)
{
	unsigned long long now = (unsigned long long)guest_now_ns();

	*ret_s = now / 1000000000;
	*ret_hundredths = now / 10000000 % 100;
}

void text_uptime(struct guest *g, struct buf *ret)
{
	unsigned long long s;
	unsigned long long hundredths;

	(void)g;
	split_seconds(&s, &hundredths);
	buf_addf(ret, "%llu.%02llu 0.00\n", s, hundredths);
}

void text_machine_stat(struct guest *g, struct buf *ret)
{
	unsigned long long user = cpu_ticks(false);
	unsigned long long system = cpu_ticks(true);
	unsigned long long s;
	unsigned long long hundredths;
	struct timespec now;

	(void)g;
	clock_gettime(CLOCK_REALTIME, &now);
	split_seconds(&s, &hundredths);
	buf_addf(ret, "cpu  %1$llu 0 %2$llu 0 0 0 0 0 0 0\ncpu0 %1$llu 0 %2$llu 0 0 0 0 0 0 0\n",
		user, system);
	buf_addf(ret, "intr 0\nctxt 0\nbtime %lld\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
		(long long)now.tv_sec - (long long)s);
}

void text_loadavg(struct guest *g, struct buf *ret)
{
	buf_addf(ret, "0.00 0.00 0.00 1/%d %d\n", g->threads_used, g->pid);
}

/* As the call says it, see call_misc.c. */
void text_version(struct guest *g, struct buf *ret)
{
	struct utsname name;

	(void)g;
	if (uname(&name) == 0)
		buf_addf(ret, "Linux version %s (hotcell) %s\n", name.release, name.version);
}

void text_release(struct guest *g, struct buf *ret)
{
	struct utsname name;

	(void)g;
	if (uname(&name) == 0)
		buf_addf(ret, "%s\n", name.release);
}

void text_hostname(struct guest *g, struct buf *ret)
{
	struct utsname name;

	(void)g;
	if (uname(&name) == 0)
		buf_addf(ret, "%s\n", name.nodename);
}

/* ---- random names ---- */

static void add_uuid(struct buf *ret, const uint8_t bytes[16])
{
	for (int i = 0; i < 16; i++)
		buf_addf(ret, "%02x%s", bytes[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
	buf_add_str(ret, "\n");
}

static void make_uuid(uint8_t ret[16])
{
	if (getrandom(ret, 16, 0) != 16)
		memset(ret, 0, 16);
	ret[6] = (uint8_t)((ret[6] & 0x0f) | 0x40); /* version 4, variant 1 */
	ret[8] = (uint8_t)((ret[8] & 0x3f) | 0x80);
}

void text_uuid(struct guest *g, struct buf *ret)
{
	uint8_t bytes[16];

	(void)g;
	make_uuid(bytes);
	add_uuid(ret, bytes);
}

/* The same as long as the program lives; the host's own is nobody's business. */
void text_boot_id(struct guest *g, struct buf *ret)
{
	static uint8_t bytes[16];

	(void)g;
	if (!bytes[6])
		make_uuid(bytes);
	add_uuid(ret, bytes);
}
