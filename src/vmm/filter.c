#include "vmm/filter.h"

#include "base/own.h"
#include "vmm/call_socket.h"
#include "vmm/dirty.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define ALL  0xffffffffU
#define TYPE (ALL & ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK))
#define IS(n, x)                                                                                   \
	{                                                                                          \
		{                                                                                  \
			(n), ALL, (uint32_t)(x)                                                    \
		}                                                                                  \
	}
#define HAS_NO(n, x)                                                                               \
	{                                                                                          \
		{                                                                                  \
			(n), (uint32_t)(x), 0                                                      \
		}                                                                                  \
	}
#define SOCKET(family, type)                                                                       \
	{                                                                                          \
		{ 0, ALL, (family) },                                                              \
		{                                                                                  \
			1, TYPE, (type)                                                            \
		}                                                                                  \
	}
#define FORK        (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
#define VFORK       (CLONE_VM | CLONE_VFORK | SIGCHLD)
#define ARCH_SET_FS 0x1002

/* For finding out what is missing here. */
#ifdef HOTCELL_FILTER_KILLS
#define OTHERWISE SECCOMP_RET_KILL_PROCESS
#else
#define OTHERWISE (SECCOMP_RET_ERRNO | ENOSYS)
#endif

/* clang-format off */
const struct filter_rule filter_rules[] = {
	/* the machine; the first rows are found first */
	{ SYS_ioctl, IS(1, KVM_RUN), "the guest" },
	{ SYS_ioctl, IS(1, KVM_GET_SREGS), "where a page fault was" },
	{ SYS_ioctl, IS(1, KVM_GET_XSAVE), "switching threads, signals" },
	{ SYS_ioctl, IS(1, KVM_SET_XSAVE), "switching threads, signals" },
	{ SYS_ioctl, IS(1, KVM_SET_SREGS), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_CREATE_VM), "making a machine: each process of the guest has one" },
	{ SYS_ioctl, IS(1, KVM_CREATE_VCPU), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_CHECK_EXTENSION), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_GET_VCPU_MMAP_SIZE), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_GET_SUPPORTED_CPUID), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_SET_CPUID2), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_SET_XCRS), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_SET_MSRS), "making a machine" },
	{ SYS_ioctl, IS(1, KVM_SET_DEVICE_ATTR), "making a machine: its time stamp counter" },
	{ SYS_ioctl, IS(1, KVM_SET_DEBUGREGS), "a machine for the next run" },
	{ SYS_ioctl, IS(1, KVM_SET_VCPU_EVENTS), "a machine for the next run" },
	{ SYS_ioctl, IS(1, KVM_SET_USER_MEMORY_REGION), "memory for the guest" },
	{ SYS_ioctl, IS(1, DIRTY_PAGEMAP_SCAN), "which pages a run wrote" },
	{ SYS_ioctl, IS(1, FIONREAD), "the guest's FIONREAD; other ioctls are answered by us" },

	/* our own memory: nothing that is executed comes from here */
	{ SYS_mmap, HAS_NO(2, PROT_EXEC), "files behind the guest's memory; malloc" },
	{ SYS_mprotect, HAS_NO(2, PROT_EXEC), "our own start" },
	{ SYS_munmap, {}, "malloc, the end of a machine" },
	{ SYS_mremap, {}, "malloc" },
	{ SYS_madvise, {}, "memory that the guest gives back" },
	{ SYS_brk, {}, "malloc" },

	/* files */
	{ SYS_read, {}, "" }, { SYS_write, {}, "" }, { SYS_readv, {}, "" }, { SYS_writev, {}, "" },
	{ SYS_pread64, {}, "" }, { SYS_pwrite64, {}, "" }, { SYS_preadv2, {}, "" }, { SYS_pwritev2, {}, "" },
	{ SYS_close, {}, "" }, { SYS_close_range, {}, "" }, { SYS_lseek, {}, "" },
	{ SYS_openat, {}, "" }, { SYS_openat2, {}, "" },
	{ SYS_fstat, {}, "" }, { SYS_newfstatat, {}, "" }, { SYS_statx, {}, "" },
	{ SYS_statfs, {}, "" }, { SYS_fstatfs, {}, "" },
	{ SYS_faccessat, {}, "" }, { SYS_faccessat2, {}, "" },
	{ SYS_readlink, {}, "realpath()" }, { SYS_readlinkat, {}, "" },
	{ SYS_getdents64, {}, "" }, { SYS_getdents, {}, "" },
	{ SYS_getcwd, {}, "" }, { SYS_chdir, {}, "" }, { SYS_fchdir, {}, "" }, { SYS_umask, {}, "" },
	{ SYS_mkdirat, {}, "" }, { SYS_mknodat, {}, "" }, { SYS_unlinkat, {}, "" },
	{ SYS_renameat2, {}, "" }, { SYS_linkat, {}, "" }, { SYS_symlinkat, {}, "" },
	{ SYS_fchmod, {}, "" }, { SYS_fchmodat, {}, "" }, { SYS_fchown, {}, "" }, { SYS_fchownat, {}, "" },
	{ SYS_truncate, {}, "" }, { SYS_ftruncate, {}, "" }, { SYS_fallocate, {}, "" },
	{ SYS_fsync, {}, "" }, { SYS_fdatasync, {}, "" }, { SYS_fadvise64, {}, "" },
	{ SYS_utimensat, {}, "" }, { SYS_copy_file_range, {}, "" }, { SYS_flock, {}, "" },
	{ SYS_setxattr, {}, "" }, { SYS_lsetxattr, {}, "" }, { SYS_fsetxattr, {}, "" },
	{ SYS_getxattr, {}, "" }, { SYS_lgetxattr, {}, "" }, { SYS_fgetxattr, {}, "" },
	{ SYS_listxattr, {}, "" }, { SYS_llistxattr, {}, "" }, { SYS_flistxattr, {}, "" },
	{ SYS_removexattr, {}, "" }, { SYS_lremovexattr, {}, "" }, { SYS_fremovexattr, {}, "" },
	{ SYS_inotify_init1, {}, "" }, { SYS_inotify_add_watch, {}, "" }, { SYS_inotify_rm_watch, {}, "" },

	/* descriptors */
	{ SYS_dup2, {}, "the streams of a run" }, { SYS_dup3, {}, "" }, { SYS_pipe2, {}, "" },
	{ SYS_memfd_create, {}, "the guest's, and made-up files" },
	{ SYS_eventfd2, {}, "the guest's, and made-up devices" },
	{ SYS_timerfd_create, {}, "" }, { SYS_timerfd_settime, {}, "" }, { SYS_timerfd_gettime, {}, "" },
	{ SYS_fcntl, IS(1, F_DUPFD), "" }, { SYS_fcntl, IS(1, F_DUPFD_CLOEXEC), "" },
	{ SYS_fcntl, IS(1, F_GETFD), "" }, { SYS_fcntl, IS(1, F_SETFD), "" },
	{ SYS_fcntl, IS(1, F_GETFL), "" }, { SYS_fcntl, IS(1, F_SETFL), "" },
	{ SYS_fcntl, IS(1, F_GETLK), "" }, { SYS_fcntl, IS(1, F_SETLK), "never one that waits" },
	{ SYS_fcntl, IS(1, F_OFD_GETLK), "" }, { SYS_fcntl, IS(1, F_OFD_SETLK), "" },
	{ SYS_fcntl, IS(1, F_GETPIPE_SZ), "" }, { SYS_fcntl, IS(1, F_SETPIPE_SZ), "" },
	{ SYS_fcntl, IS(1, F_ADD_SEALS), "" }, { SYS_fcntl, IS(1, F_GET_SEALS), "" },

	/* waiting */
	{ SYS_poll, {}, "" }, { SYS_ppoll, {}, "" }, { SYS_restart_syscall, {}, "the kernel's own" },
	{ SYS_epoll_create1, {}, "" }, { SYS_epoll_ctl, {}, "" }, { SYS_epoll_wait, {}, "" },
	{ SYS_futex, IS(1, FUTEX_WAIT), "memory that processes of the guest share" },
	{ SYS_futex, IS(1, FUTEX_WAKE), "likewise" },

	/* sockets; their options are in call_socket.c */
	{ SYS_socket, SOCKET(AF_UNIX, SOCK_STREAM), "" }, { SYS_socket, SOCKET(AF_UNIX, SOCK_DGRAM), "" },
	{ SYS_socket, SOCKET(AF_UNIX, SOCK_SEQPACKET), "" },
	{ SYS_socket, SOCKET(AF_INET, SOCK_STREAM), "" }, { SYS_socket, SOCKET(AF_INET, SOCK_DGRAM), "" },
	{ SYS_socket, SOCKET(AF_INET6, SOCK_STREAM), "" }, { SYS_socket, SOCKET(AF_INET6, SOCK_DGRAM), "" },
	{ SYS_socketpair, IS(0, AF_UNIX), "" }, { SYS_bind, {}, "" }, { SYS_listen, {}, "" },
	{ SYS_accept4, {}, "" }, { SYS_connect, {}, "" }, { SYS_shutdown, {}, "" },
	{ SYS_getsockname, {}, "" }, { SYS_getpeername, {}, "" },
	{ SYS_sendmsg, {}, "" }, { SYS_recvmsg, {}, "" }, { SYS_sendto, {}, "answers to the keeper" },

	/* processes of the guest */
	{ SYS_clone, IS(0, FORK), "fork: no namespaces, no threads" },
	{ SYS_clone, IS(0, VFORK), "vfork" },
	{ SYS_clone, IS(0, CLONE_PARENT | SIGCHLD), "a mother's machine" },
	{ SYS_execveat, { { 0, ALL, VMM_SELF_FD }, { 4, ALL, AT_EMPTY_PATH } },
		"ourselves again. The path cannot be looked at: what is executed keeps this filter" },
	{ SYS_wait4, {}, "" }, { SYS_waitid, {}, "" }, { SYS_exit_group, {}, "" }, { SYS_exit, {}, "" },
	{ SYS_kill, {}, "among those of the cell" }, { SYS_tgkill, {}, "raise()" },
	{ SYS_pidfd_open, HAS_NO(1, ~O_NONBLOCK),
		"likewise: in this namespace there is nobody else. A pidfd can be waited for and signalled, as a child by its "
		"number; pidfd_getfd, setns and process_madvise, which could do more, are not here" },
	{ SYS_rt_sigqueueinfo, {}, "likewise: kill with a word" },
	{ SYS_pidfd_send_signal, IS(3, 0), "likewise: what kill may do" },
	{ SYS_getpriority, {}, "" }, { SYS_getpid, {}, "" }, { SYS_getppid, {}, "" }, { SYS_gettid, {}, "" },
	{ SYS_getpgrp, {}, "" }, { SYS_getpgid, {}, "" }, { SYS_setpgid, {}, "" },
	{ SYS_getsid, {}, "" }, { SYS_setsid, {}, "" }, { SYS_getuid, {}, "" }, { SYS_getgid, {}, "" },
	{ SYS_prctl, IS(0, PR_SET_CHILD_SUBREAPER), "" },

	/* signals and time */
	{ SYS_rt_sigaction, {}, "" }, { SYS_sigaltstack, {}, "of our own handlers" }, { SYS_rt_sigprocmask, {}, "" }, { SYS_rt_sigreturn, {}, "" },
	{ SYS_alarm, {}, "" }, { SYS_getitimer, {}, "" }, { SYS_setitimer, {}, "" },
	{ SYS_timer_create, {}, "" }, { SYS_timer_settime, {}, "" }, { SYS_timer_gettime, {}, "" },
	{ SYS_timer_getoverrun, {}, "" }, { SYS_timer_delete, {}, "" },
	{ SYS_clock_gettime, {}, "where there is no vDSO" }, { SYS_gettimeofday, {}, "likewise" },
	{ SYS_time, {}, "likewise" }, { SYS_clock_getres, {}, "likewise" },

	/* what a guest may know */
	{ SYS_uname, {}, "" }, { SYS_sysinfo, {}, "" }, { SYS_getrusage, {}, "" }, { SYS_times, {}, "" },
	{ SYS_getrandom, {}, "" }, { SYS_prlimit64, IS(0, 0), "its own limits" },

	/* the start of a program: of ourselves, executed again */
	{ SYS_arch_prctl, IS(0, ARCH_SET_FS), "the C library" },
	{ SYS_set_tid_address, {}, "the C library" }, { SYS_set_robust_list, {}, "the C library" },
	{ SYS_rseq, {}, "the C library" },
};
/* clang-format on */

const size_t filter_rules_count = COUNT(filter_rules);

/* ---- the program ----
 *
 * The kernel converts and compiles it, and goes through it for every call that there is, whenever it is installed: for
 * a long one that takes a tenth of what a machine takes. So it is short. The numbers of calls are cut into stretches
 * that are allowed, or absent, or one call whose arguments matter; which one it is, is searched by halves. */

enum { RULES_MAX = 512, STRETCHES_MAX = 2 * RULES_MAX + 1, TO_BE_SET = 255 };

enum kind { ABSENT, ALLOWED, CHECKED };

struct stretch {
	uint32_t start; /* it ends where the next one starts */
	enum kind kind;
	size_t from; /* CHECKED: its rules */
	size_t to;
};

struct program {
	struct sock_filter *at;
	size_t len;
	size_t max;
	bool is_broken;
	const struct filter_rule *rules[RULES_MAX]; /* sorted by their calls */
	size_t rules_count;
	struct stretch stretches[STRETCHES_MAX];
	size_t stretches_count;
};

static void add(struct program *p, struct sock_filter instruction)
{
	if (p->len < p->max)
		p->at[p->len] = instruction;
	p->len++;
}

#define STATEMENT(code, k)     ((struct sock_filter)BPF_STMT(code, k))
#define JUMP(code, k, yes, no) ((struct sock_filter)BPF_JUMP(code, k, yes, no))

static void add_load(struct program *p, const struct filter_check *c)
{
	add(p, STATEMENT(BPF_LD | BPF_W | BPF_ABS,
		       (uint32_t)offsetof(struct seccomp_data, args) + 8U * c->argument));
	if (c->mask != ALL)
		add(p, STATEMENT(BPF_ALU | BPF_AND | BPF_K, c->mask));
}

static bool look_at_the_same(const struct filter_check *a, const struct filter_check *b)
{
	return a->argument == b->argument && a->mask == b->mask;
}

/* Rules that differ in the value of their last check only. */
static bool are_alike(const struct filter_rule *a, const struct filter_rule *b)
{
	return look_at_the_same(&a->checks[0], &b->checks[0]) &&
	       look_at_the_same(&a->checks[1], &b->checks[1]) &&
	       (!a->checks[1].mask || a->checks[0].value == b->checks[0].value);
}

/* The argument is loaded once for all of them. Whoever passes goes to where add_call() says. */
static size_t add_alike(struct program *p, size_t from, size_t to)
{
	const struct filter_check *first = p->rules[from]->checks;
	int last = first[1].mask ? 1 : 0;
	size_t end = from + 1;

	while (end < to && are_alike(p->rules[from], p->rules[end]))
		end++;
	add_load(p, &first[0]);
	if (last) {
		size_t skipped = (first[1].mask == ALL ? 1U : 2U) + end - from;

		add(p, JUMP(BPF_JMP | BPF_JEQ | BPF_K, first[0].value, 0, (uint8_t)skipped));
		add_load(p, &first[1]);
		p->is_broken |= skipped >= TO_BE_SET;
	}
	for (size_t i = from; i < end; i++)
		add(p, JUMP(BPF_JMP | BPF_JEQ | BPF_K, p->rules[i]->checks[last].value, TO_BE_SET,
			       0));
	return end;
}

/* All rules of one call, of which one must be met. */
static void add_call(struct program *p, const struct stretch *s)
{
	size_t start = p->len;

	for (size_t at = s->from; at < s->to;)
		at = add_alike(p, at, s->to);
	add(p, STATEMENT(BPF_RET | BPF_K, OTHERWISE));
	for (size_t i = start; i < p->len && i < p->max; i++)
		if (p->at[i].jt == TO_BE_SET)
			p->at[i].jt = (uint8_t)(p->len - i - 1);
	add(p, STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	p->is_broken |= p->len - start >= TO_BE_SET;
}

static void add_stretch(struct program *p, const struct stretch *s)
{
	if (s->kind == CHECKED)
		add_call(p, s);
	else
		add(p, STATEMENT(BPF_RET | BPF_K,
			       s->kind == ALLOWED ? SECCOMP_RET_ALLOW : OTHERWISE));
}

/* A conditional jump reaches 255 instructions: for more, one that reaches anywhere follows it. */
static void add_search(struct program *p, size_t from, size_t to)
{
	size_t middle = from + (to - from) / 2;
	uint32_t start = p->stretches[middle].start;
	size_t jump = p->len;

	if (to - from == 1) {
		add_stretch(p, &p->stretches[from]);
		return;
	}
	add(p, JUMP(BPF_JMP | BPF_JGE | BPF_K, start, 0, 0));
	add_search(p, from, middle);
	if (p->len - jump - 1 <= 255) {
		if (jump < p->max)
			p->at[jump].jt = (uint8_t)(p->len - jump - 1);
	} else {
		p->len = jump;
		add(p, JUMP(BPF_JMP | BPF_JGE | BPF_K, start, 0, 1));
		add(p, STATEMENT(BPF_JMP | BPF_JA, 0));
		add_search(p, from, middle);
		if (jump + 1 < p->max)
			p->at[jump + 1].k = (uint32_t)(p->len - jump - 2);
	}
	add_search(p, middle, to);
}

/* By their calls; those that are alike side by side, and else as they stand in the table. */
static int compare(const void *a, const void *b)
{
	const struct filter_rule *x = *(const struct filter_rule *const *)a;
	const struct filter_rule *y = *(const struct filter_rule *const *)b;

	if (x->number != y->number)
		return x->number - y->number;
	if (x->checks[1].mask && y->checks[1].mask && x->checks[0].value != y->checks[0].value)
		return x->checks[0].value < y->checks[0].value ? -1 : 1;
	return (x > y) - (x < y);
}

static void gather(struct program *p)
{
	static struct filter_rule options[RULES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < filter_rules_count; i++)
		p->rules[p->rules_count++] = &filter_rules[i];
	for (unsigned i = 0; i < socket_options_count; i++)
		for (int k = 0; k < (socket_options[i].may_set ? 2 : 1); k++) {
			options[count] = (struct filter_rule){
				.number = k ? SYS_setsockopt : SYS_getsockopt,
				.checks = { { 1, ALL, (uint32_t)socket_options[i].level },
					{ 2, ALL, (uint32_t)socket_options[i].name } },
			};
			p->rules[p->rules_count++] = &options[count++];
		}
	qsort(p->rules, p->rules_count, sizeof(struct filter_rule *), compare);
}

/* One more of the same kind makes a stretch longer, unless it has rules of its own. */
static void add_numbers(struct program *p, struct stretch s)
{
	size_t count = p->stretches_count;

	if (count && s.kind != CHECKED && p->stretches[count - 1].kind == s.kind)
		return;
	p->stretches[p->stretches_count++] = s;
}

static void cut(struct program *p)
{
	uint32_t next = 0;

	for (size_t from = 0, to; from < p->rules_count; from = to) {
		uint32_t number = (uint32_t)p->rules[from]->number;
		bool is_checked = true;

		for (to = from; to < p->rules_count && (uint32_t)p->rules[to]->number == number;
			to++)
			is_checked = is_checked && p->rules[to]->checks[0].mask;
		if (number > next)
			add_numbers(p, (struct stretch){ .start = next, .kind = ABSENT });
		add_numbers(
			p, (struct stretch){ number, is_checked ? CHECKED : ALLOWED, from, to });
		next = number + 1;
	}
	add_numbers(p, (struct stretch){ .start = next, .kind = ABSENT });
}

size_t filter_compile(struct sock_filter *ret, size_t max)
{
	static struct program p;

	/* Not all of it: clearing what is clear would touch ten pages. */
	p.at = ret;
	p.max = max;
	p.len = p.rules_count = p.stretches_count = 0;
	p.is_broken = false;
	if (filter_rules_count + 2UL * socket_options_count > RULES_MAX)
		return 0;
	gather(&p);
	cut(&p);
	add(&p, STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	add(&p, JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add(&p, STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	add(&p, STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	add_search(&p, 0, p.stretches_count);
	return p.len <= max && !p.is_broken ? p.len : 0;
}

int filter_install(struct err *e)
{
	static struct sock_filter instructions[FILTER_SIZE_MAX];
	size_t len = filter_compile(instructions, COUNT(instructions));
	struct sock_fprog program = { .len = (unsigned short)len, .filter = instructions };

	if (len == 0)
		return err_set(e, ERR_SYSTEM, "the filter of system calls is too long");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return err_sys(e, "filter system calls");
	return 0;
}
