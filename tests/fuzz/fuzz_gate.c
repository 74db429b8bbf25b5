/* The gate: system calls with arguments and memory that a guest made up.
 *
 * There is no machine here: guest memory has no processor, so that page tables are written at once.
 * An input is a list of steps: bytes for the guest's memory, or a call from the table in calls.c with
 * its arguments. What would leave this process or change the machine is left out (left_out[]), and so
 * is everything below that only passes a name on; files are memfds. */
#include "fuzz.h"

#include "vmm/calls.h"
#include "vmm/fds.h"
#include "vmm/guest.h"
#include "vmm/tables.h"
#include "vmm/thread.h"
#include "vmm/try.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum {
	MEMORY = 64 << 20,
	BASE = 0x10000000,
	SIZE = 0x20000,
	FDS = 64,
	OWN_FDS = 3, /* the fuzzer's */
	STEPS_MAX = 200,
	NUMBERS = 442, /* of system calls */
	ALLOCATE_MAX = 1 << 20,
	FILE_MAX = 8 << 20,
};

static const uint16_t left_out[] = {
	/* ends, or is ended */
	SYS_exit,
	SYS_exit_group,
	SYS_rt_sigreturn,
	SYS_kill,
	SYS_tgkill,
	SYS_execve,
	SYS_execveat,
	SYS_fork,
	SYS_vfork,
	SYS_wait4,
	SYS_waitid,
	SYS_alarm,
	SYS_setitimer,
	SYS_timer_create,
	/* changes the process that fuzzes */
	SYS_setrlimit,
	SYS_setsid,
	SYS_setpgid,
	SYS_chdir,
	SYS_fchdir,
	SYS_umask,
	SYS_close_range,
	/* changes files of the machine, which runs this as root */
	SYS_openat2,
	SYS_creat,
	SYS_rename,
	SYS_renameat,
	SYS_renameat2,
	SYS_mkdir,
	SYS_mkdirat,
	SYS_rmdir,
	SYS_link,
	SYS_linkat,
	SYS_unlink,
	SYS_unlinkat,
	SYS_symlink,
	SYS_symlinkat,
	SYS_chmod,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_chown,
	SYS_fchown,
	SYS_lchown,
	SYS_fchownat,
	SYS_truncate,
	SYS_mknod,
	SYS_mknodat,
	SYS_utime,
	SYS_utimes,
	SYS_futimesat,
	SYS_utimensat,
	SYS_setxattr,
	SYS_lsetxattr,
	SYS_fsetxattr,
	SYS_removexattr,
	SYS_lremovexattr,
	SYS_fremovexattr,
	/* reaches others */
	SYS_socket,
	SYS_connect,
	SYS_bind,
};

static const uint64_t wild[] = { 0, 1, 7, 8, 0xfff, PAGE, 0x1f000, 0x1fffff, LOW_END, BASE,
	BASE + SIZE - 8, BASE + SIZE, BASE + CHUNK - 8, 0x7d0000000000, 0x7e0000000000,
	0x7e8000000000, ADDRESS_END - PAGE, ADDRESS_END, 0x7fff80000000, 0x7ffffffff000, 1UL << 47,
	1UL << 62, INT64_MAX, 1UL << 63, UINT32_MAX, INT32_MAX, UINT64_MAX - CHUNK + 1,
	UINT64_MAX - PAGE + 1, UINT64_MAX - 7, UINT64_MAX, (uint64_t)-100, 1000 };

/* Names that mean something to the VMM. */
static const char *const names[] = { "/proc/self/maps", "/proc/self/fd", "/proc/self/fd/5",
	"/proc/self/status", "/proc/1/../self/./exe", "/dev/zero", "/dev/urandom", "/dev/full",
	"/proc/cpuinfo", "/dev/stdin", "/proc", "/proc/self/task", "self/maps", "..", "." };

static struct guest g;
static struct sigaction before[2];

static void on_fault(int number, siginfo_t *info, void *context)
{
	const struct sigaction *old = &before[number == SIGBUS];

	if (!try_failed(context))
		old->sa_sigaction(number, info, context); /* the sanitizer's, which reports it */
}

static void begin_once(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct rlimit largest = { FILE_MAX, RLIM_INFINITY };
	struct err e = { 0 };

	sigaction(SIGSEGV, &action, &before[0]);
	sigaction(SIGBUS, &action, &before[1]);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &largest);
	CLAIM(mem_open(&g.mem, MEMORY, &e) == 0);
	g.threads = calloc(THREADS_MAX, sizeof(*g.threads));
	CLAIM(g.threads);
	g.cpu.fd = g.cpu.vm_fd = -1;
}

static void begin(void)
{
	const struct area data = { .start = BASE, .end = BASE + SIZE, .protection = 3 };
	const struct area heap = { .start = BASE + 2 * CHUNK,
		.end = BASE + 2 * CHUNK + SIZE,
		.protection = 3,
		.kind = AREA_HEAP };
	struct err e = { 0 };

	CLAIM(mem_clear(&g.mem, &e) == 0);
	tables_init(&g.mem, true);
	for (int i = 0; i < THREADS_MAX; i++) {
		struct pollfd *polls = g.threads[i].polls;
		uint32_t room = g.threads[i].polls_room;

		g.threads[i] = (struct thread){ .polls = polls, .polls_room = room };
	}
	memset(g.actions, 0, sizeof(g.actions));
	g.threads_used = 0;
	g.current = thread_new(&g);
	g.pid = getpid();
	guest_thread(&g)->tid = g.pid;
	g.pending = 0;
	g.open_files = FDS;
	g.memory_bytes = MEMORY;
	CLAIM(mem_map(&g.mem, &data) == 0 && mem_map(&g.mem, &heap) == 0);
	g.mem.heap_start = heap.start;
	guest_shared(&g)->heap_start = guest_shared(&g)->heap = heap.start;
}

static void end(void)
{
	close_range(OWN_FDS, ~0U, 0);
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++)
		fds_forget(fd);
}

/* ---- input ---- */

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct input *in, size_t size)
{
	uint64_t value = 0;

	size = size < in->left ? size : in->left;
	memcpy(&value, in->at, size);
	in->at += size;
	in->left -= size;
	return value;
}

static uint64_t take_argument(struct input *in, char kind)
{
	unsigned how = (unsigned)take(in, 1);

	if (kind == 'f' && how < 128)
		return OWN_FDS + how % 16;
	switch (how / 32) {
	case 0:
	case 1:
		return how;
	case 2:
	case 3:
		return BASE + take(in, 2) * 2 % SIZE;
	case 4:
		return wild[how % (sizeof(wild) / sizeof(wild[0]))];
	case 5:
		return take(in, 8);
	case 6:
		return 0x7e0000000000 + take(in, 2) * PAGE;
	default:
		return BASE + take(in, 2) * PAGE;
	}
}

static void put_bytes(struct input *in)
{
	uint64_t at = BASE + take(in, 2) * 2 % SIZE;
	size_t size = (size_t)take(in, 1);
	uint8_t bytes[256];

	size = size < in->left ? size : in->left;
	memcpy(bytes, in->at, size);
	in->at += size;
	in->left -= size;
	/* No names of the machine's files. */
	for (size_t i = 0; i < size; i++)
		if (bytes[i] == '/')
			bytes[i] = '_';
	mem_write(&g.mem, at, bytes, size);
}

static void put_name(struct input *in)
{
	const char *name = names[take(in, 1) % (sizeof(names) / sizeof(names[0]))];

	mem_write(&g.mem, BASE + take(in, 2) * 2 % SIZE, name, strlen(name) + 1);
}

/* ---- a call ---- */

static bool may_call(const struct call_row *row, uint64_t a[6])
{
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (row->number == left_out[i])
			return false;
	for (int i = 0; row->arguments[i] && i < 6; i++)
		if (row->arguments[i] == 'f' && (uint32_t)a[i] < OWN_FDS)
			a[i] += OWN_FDS;
	switch (row->number) {
	case SYS_clone:
		return (a[0] & 0x10000) != 0; /* a thread */
	case SYS_open:
		a[1] &= ~(uint64_t)(O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE) | O_DIRECTORY;
		return true;
	case SYS_openat:
		a[2] &= ~(uint64_t)(O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE) | O_DIRECTORY;
		return true;
	case SYS_fallocate:
		return a[3] <= ALLOCATE_MAX && a[2] <= ALLOCATE_MAX;
	case SYS_prlimit64:
		a[2] = 0;
		return true;
	default:
		return true;
	}
}

static void call(struct input *in)
{
	const struct call_row *row = call_find(take(in, 2) % NUMBERS);
	struct thread *t = guest_thread(&g);
	uint64_t a[6] = { 0 };
	int64_t result;

	if (!row || !row->handler)
		return;
	for (int i = 0; row->arguments[i] && i < 6; i++)
		a[i] = take_argument(in, row->arguments[i]);
	if (!may_call(row, a))
		return;
	t->call = (struct call){ .number = row->number };
	memcpy(t->call.a, a, sizeof(a));
	t->tries_again = false;
	t->deadline_ns = 0;
	/* What waits is tried once more, as if it had been woken. */
	for (int i = 0; i < 2; i++) {
		result = row->handler(&g, a);
		CLAIM(result >= -4095 || result == CALL_WAITS || result == CALL_YIELDS ||
			result == CALL_SET_REGISTERS);
		t->polls_count = 0;
		t->futex = 0;
		t->awaited = 0;
		t->tries_again = true;
		if (result != CALL_WAITS && result != CALL_YIELDS)
			break;
	}
	t->tries_again = false;
	t->restores_blocked = false;
	CLAIM(g.threads[g.current].used && g.threads_used >= 1);
}

/* What the books must be, whatever was called. */
static void check_books(void)
{
	const struct mem *m = &g.mem;

	for (uint32_t i = 0; i < m->areas_count; i++) {
		const struct area *area = &m->areas[i];

		CLAIM(area->start < area->end && area->start >= LOW_END &&
			area->end <= ADDRESS_END);
		CLAIM(area->start % PAGE == 0 && area->end % PAGE == 0);
		CLAIM(i == 0 || m->areas[i - 1].end <= area->start);
	}
	for (uint32_t i = 0; i < m->blocks_count; i++) {
		CLAIM(i == 0 || m->blocks[i - 1].number < m->blocks[i].number);
		CLAIM(m->blocks[i].chunk > 0 && m->blocks[i].chunk < m->next_chunk);
		for (uint32_t k = 0; k < m->free_chunks_count; k++)
			CLAIM(m->free_chunks[k] != m->blocks[i].chunk);
		for (uint32_t k = 0; k < i; k++)
			CLAIM(m->blocks[k].chunk != m->blocks[i].chunk);
	}
	CLAIM((uint64_t)m->next_chunk * CHUNK <= m->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	static bool has_begun;

	if (!has_begun)
		begin_once();
	has_begun = true;
	begin();
	for (int i = 0; i < STEPS_MAX && in.left; i++) {
		uint64_t step = take(&in, 1);

		if (step >= 224)
			put_bytes(&in);
		else if (step >= 208)
			put_name(&in);
		else
			call(&in);
	}
	check_books();
	end();
	return 0;
}
