#include "vmm/process.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/call_path.h"
#include "vmm/call_time.h"
#include "vmm/elf.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/processor.h"
#include "vmm/signal.h"
#include "vmm/spare.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "vmm/trace.h"
#include "vmm/warm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	VFORK_STACK = 1 << 20,
	ARGUMENTS_MAX = 16384,
	ARGUMENTS_BYTES = 2 << 20,
	OPTIONS_MAX = 9,
	OPTION_SIZE = 256,
	SPECIALS_SIZE = 8192,
};

/* ---- fork ---- */

/* In the child: a machine of its own over the memory that it inherited. The parent waits for the news:
 * a machine may be refused (it has a thread of the kernel's, which is counted), and then so is fork. */
static void begin_child(struct guest *g, const struct kvm_xsave *xsave, int news_fd)
{
	struct err ignored;

	g->cpu.slots = 0;
	vcpu_close(&g->cpu);
	if (vcpu_open(&g->cpu, VMM_KVM_FD, &ignored) || mem_attach(&g->mem, &g->cpu, &ignored) ||
		vcpu_set_xsave(&g->cpu, xsave) || vcpu_try(&g->cpu) || write(news_fd, "", 1) != 1)
		_exit(125);
	close(news_fd);
	warm_leave(g);
	g->keeps_output = false;
	file_update_output(g);
	time_forget_timers();
	g->in_vfork = false; /* its parent may be, but this memory is its own */
	g->pid = getpid();
	g->pending = 0;
	guest_thread(g)->pending = 0;
	thread_forget_others(g);
	tick_open();
	tick_start();
}

static int set_tid(struct guest *g, uint64_t flags, uint64_t flag, uint64_t address, pid_t pid)
{
	uint32_t tid = (uint32_t)pid;

	return flags & flag ? mem_write(&g->mem, address, &tid, sizeof(tid)) : 0;
}

static int64_t wait_for_child(pid_t pid, int news_fd)
{
	char begun;
	ssize_t n;

	do
		n = read(news_fd, &begun, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -EAGAIN;
}

static int64_t do_fork(struct guest *g, const uint64_t a[6])
{
	static struct kvm_xsave xsave;
	struct thread *t = guest_thread(g);
	int64_t result;
	int news[2];
	pid_t pid;

	warm_spoil(g); /* a child may outlive the run */
	if (spare_leave(&g->mem) || vcpu_get_xsave(&g->cpu, &xsave) || pipe2(news, O_CLOEXEC))
		return -ENOMEM;
	pid = fork();
	result = pid < 0 ? -errno : pid;
	close(news[pid == 0 ? 0 : 1]);
	if (pid > 0)
		result = wait_for_child(pid, news[0]);
	if (pid != 0)
		close(news[0]);
	if (result > 0)
		set_tid(g, a[0], CLONE_PARENT_SETTID, a[2], pid);
	if (result)
		return result;
	begin_child(g, &xsave, news[1]);
	if (a[1])
		t->registers.general.rsp = a[1];
	if (a[0] & CLONE_SETTLS)
		t->registers.fs_base = a[4];
	t->clear_tid = a[0] & CLONE_CHILD_CLEARTID ? a[3] : 0;
	set_tid(g, a[0], CLONE_CHILD_SETTID, a[3], g->pid);
	return 0;
}

/* ---- vfork ---- */

/* The child uses our memory and our machine, with descriptors of its own, until it executes another
 * program or ends; we stand still meanwhile. What it changes of the VMM's own books is put back. */
struct vfork {
	struct guest *g;
	const uint64_t *a;
};

static int be_vforked(void *context)
{
	const struct vfork *v = context;
	struct guest *g = v->g;
	struct thread *t = guest_thread(g);

	g->in_vfork = true;
	g->pid = getpid();
	t->tid = g->pid;
	t->registers.general.rax = 0;
	if (v->a[1])
		t->registers.general.rsp = v->a[1];
	if (v->a[0] & CLONE_SETTLS)
		t->registers.fs_base = v->a[4];
	t->clear_tid = 0;
	t->tries_again = false;
	t->pending = g->pending = 0; /* they are the parent's */
	thread_publish(g);
	guest_run(g);
}

static int64_t do_vfork(struct guest *g, const uint64_t a[6])
{
	static uint8_t *stack;
	static struct kvm_xsave xsave;
	static struct thread saved;
	static struct signal_action actions[SIGNALS_MAX + 1];
	struct fds_kept *kept;
	/* glibc tells the compiler that clone() does not come back into this file. */
	int (*volatile do_clone)(int (*)(void *), void *, int, void *, ...) = clone;
	struct vfork v = { .g = g, .a = a };
	struct thread *t = guest_thread(g);
	uint64_t out_fds = guest_shared(g)->out_fds;
	uint64_t pending = g->pending;
	int old_pid = g->pid;
	pid_t pid;

	if (g->in_vfork)
		return do_fork(g, a); /* a child of a child: rare, and right, only slower */
	if (!stack) {
		stack = mmap(NULL, VFORK_STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED) {
			stack = NULL;
			return -ENOMEM;
		}
	}
	if (vcpu_get_xsave(&g->cpu, &xsave))
		return -ENOMEM;
	warm_spoil(g);
	saved = *t;
	memcpy(actions, g->actions, sizeof(actions));
	kept = fds_keep();
	pid = do_clone(be_vforked, stack + VFORK_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &v);
	/* Killed while it was changing what is ours too: nothing here can be believed any more. */
	if (pid > 0 && g->in_books)
		kill(getpid(), SIGKILL);
	g->in_books = true;
	/* The child may have made this larger, elsewhere. */
	saved.polls = t->polls;
	saved.polls_room = t->polls_room;
	*t = saved;
	memcpy(g->actions, actions, sizeof(actions));
	signal_publish(g);
	fds_restore(kept);
	g->in_vfork = false;
	g->pending = pending;
	g->pid = old_pid;
	g->cpu.in_stub = false;
	g->cpu.stands = STANDS_IN_KERNEL; /* wherever the child left it: all registers are set */
	vcpu_set_xsave(&g->cpu, &xsave);
	guest_shared(g)->out_fds = out_fds;
	guest_shared(g)->out_len = 0;
	thread_publish(g);
	if (pid > 0)
		set_tid(g, a[0], CLONE_PARENT_SETTID, a[2], pid);
	return pid < 0 ? -errno : pid;
}

int64_t call_any_clone(struct guest *g, const uint64_t a[6])
{
	const uint64_t thread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;

	if (a[0] & CLONE_SETTLS && a[4] >= ADDRESS_END)
		return -EPERM;
	/* A thread of a child that has no memory of its own would be its parent's. */
	if (a[0] & CLONE_THREAD && g->in_vfork)
		return -EAGAIN;
	if (a[0] & CLONE_THREAD)
		return (a[0] & thread) == thread ? call_clone(g, a) : -EINVAL;
	if (a[0] & (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			   CLONE_NEWUTS | CLONE_NEWCGROUP))
		return -EPERM;
	if (a[0] & CLONE_VM && a[0] & CLONE_VFORK)
		return do_vfork(g, a);
	if (a[0] & CLONE_VM) {
		guest_say(g, "hotcell: clone(CLONE_VM) of a process is not to be had in a vm; "
			     "--isolation container has it");
		return -ENOSYS;
	}
	return do_fork(g, a);
}

int64_t call_fork(struct guest *g, const uint64_t a[6])
{
	const uint64_t none[6] = { SIGCHLD };

	(void)a;
	return do_fork(g, none);
}

int64_t call_vfork(struct guest *g, const uint64_t a[6])
{
	const uint64_t none[6] = { CLONE_VM | CLONE_VFORK | SIGCHLD };

	(void)a;
	return do_vfork(g, none);
}

/* ---- execve ---- */

struct words {
	const char **at; /* NULL-terminated */
	uint32_t count;
	struct buf text;
};

static void words_close(struct words *w)
{
	free(w->at);
	buf_free(&w->text);
}

/* A vector of strings out of the guest, copied before anything is believed. */
static int words_read(struct guest *g, uint64_t address, struct words *w)
{
	auto_free size_t *offsets = xalloc(ARGUMENTS_MAX * sizeof(*offsets));
	static char text[131072];

	for (w->count = 0; address; w->count++) {
		uint64_t pointer;
		int len;

		if (mem_read(&g->mem, &pointer, address + w->count * 8UL, 8))
			return -EFAULT;
		if (!pointer)
			break;
		len = mem_string(&g->mem, text, pointer, sizeof(text));
		if (len < 0)
			return len == -ENAMETOOLONG ? -E2BIG : len;
		if (w->count == ARGUMENTS_MAX || w->text.len + (size_t)len > ARGUMENTS_BYTES)
			return -E2BIG;
		offsets[w->count] = w->text.len;
		buf_add(&w->text, text, (size_t)len + 1);
	}
	w->at = xalloc((w->count + 2UL) * sizeof(*w->at));
	for (uint32_t i = 0; i < w->count; i++)
		w->at[i] = w->text.data + offsets[i];
	return 0;
}

static uint64_t ignored_signals(const struct guest *g)
{
	uint64_t bits = 0;

	for (int n = 1; n <= SIGNALS_MAX; n++)
		if (g->actions[n].handler == 1)
			bits |= 1ULL << (n - 1);
	return bits;
}

/* The VMM executes itself: the host closes what is to be closed and gives fresh memory. */
static int64_t exec_self(
	struct guest *g, const struct elf_program *p, const char *const *env, uint32_t env_count)
{
	static char options[OPTIONS_MAX][OPTION_SIZE];
	static char specials[SPECIALS_SIZE + 16];
	static char features[16 + PROCESSOR_FEATURES_SIZE] = "--features=";
	size_t argc = 0;
	size_t used = 0;
	int program_fd = -1;
	int host;
	int shown;
	auto_free const char **argv = NULL;
	static char *const no_environment[] = { NULL };
	sigset_t all;
	int64_t result;

	while (p->argv[argc])
		argc++;
	argv = xalloc((argc + env_count + OPTIONS_MAX + 8) * sizeof(*argv));
	snprintf(options[0], OPTION_SIZE, "--open-files=%llu", (unsigned long long)g->open_files);
	snprintf(options[1], OPTION_SIZE, "--memory=%llu", (unsigned long long)g->memory_bytes);
	snprintf(options[2], OPTION_SIZE, "--signals=%llx,%llx",
		(unsigned long long)ignored_signals(g),
		(unsigned long long)guest_thread(g)->blocked);
	snprintf(options[3], OPTION_SIZE, "--host=%s,%llu", g->cpu.is_pvm ? "pvm" : "hardware",
		(unsigned long long)tick_ns_per_tsc_32());
	pids_get(&host, &shown);
	snprintf(options[4], OPTION_SIZE, "--shown=%d,%d", host, shown);
	snprintf(options[5], OPTION_SIZE, "--address-space=%llu",
		(unsigned long long)g->address_space);
	snprintf(options[6], OPTION_SIZE, "--processes=%llu", (unsigned long long)g->processes);
	snprintf(options[8], OPTION_SIZE, "%u", env_count);
	used = (size_t)snprintf(specials, sizeof(specials), "--special=");
	special_save(specials + used, SPECIALS_SIZE);
	used = 0;
	argv[used++] = "hotcell-vmm";
	for (int i = 0; i < 7; i++)
		argv[used++] = options[i];
	argv[used++] = specials;
	processor_save_features(features + strlen("--features="));
	argv[used++] = features;
	if (p->fd >= 0) {
		/* One that is not closed by executing, and not among those of the program. */
		program_fd = fcntl(p->fd, F_DUPFD, VMM_OWN_FDS);
		if (program_fd < 0)
			return -errno;
		snprintf(options[7], OPTION_SIZE, "--program-fd=%d", program_fd);
		argv[used++] = options[7];
	}
	if (g->traces)
		argv[used++] = "--trace";
	argv[used++] = options[8];
	for (uint32_t i = 0; i < env_count; i++)
		argv[used++] = env[i];
	argv[used++] = p->fd >= 0 && *fds_name(p->fd) ? fds_name(p->fd) : p->path;
	for (size_t i = 0; i < argc; i++)
		argv[used++] = p->argv[i];
	/* It hardly ever fails from here on; if it does, that is told as well. */
	if (g->traces)
		trace_call(g, &guest_thread(g)->call, 0);
	/* What comes from here on is for the new program. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal_pass_on(g);
	guest_flush_output(g);
	g->in_books = false;
	execveat(VMM_SELF_FD, "", (char *const *)(uintptr_t)argv, no_environment, AT_EMPTY_PATH);
	g->in_books = true;
	result = -errno;
	own_close(&program_fd);
	sigprocmask(SIG_SETMASK, signal_waiting_mask(), NULL);
	return result;
}

/* What a descriptor was opened by, if that is still what it is. */
static bool has_name(int fd)
{
	struct stat there;
	struct stat here;

	return fds_name(fd)[0] == '/' && stat(fds_name(fd), &there) == 0 && fstat(fd, &here) == 0 &&
	       there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

/* As Linux does: its number is its name, by which an interpreter would open it once more. */
static int resolve_fd(int fd, const char *const *argv, struct elf_program *ret)
{
	char path[32];
	int result;

	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	if (fds_kind(fd) != FD_PLAIN)
		return -EACCES;
	result = elf_resolve_fd(fd, path, argv, ret);
	if (result == 0 && ret->fd < 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC)
		return -ENOENT;
	return result;
}

/* `fd`: what to execute, -1 = `path`. */
static int64_t do_execve(struct guest *g, const char *path, int fd, const uint64_t *vectors)
{
	struct words argv = { 0 };
	struct words env = { 0 };
	static struct elf_program program;
	char target[PATH_SIZE];
	int64_t result = words_read(g, vectors[0], &argv);

	/* As Linux does since 5.18: everybody has a name. */
	if (result == 0 && argv.count == 0)
		argv.at[0] = "";
	if (result == 0)
		result = words_read(g, vectors[1], &env);
	if (fd < 0)
		fd = path_made_fd(g, path);
	if (fd >= 0 && has_name(fd)) {
		path = fds_name(fd);
		fd = -1;
	}
	if (fd < 0 && path_follow_made(g, path, target, sizeof(target)))
		path = target;
	if (result == 0)
		result = fd >= 0 ? resolve_fd(fd, argv.at, &program) :
				   elf_resolve(path, argv.at, &program);
	if (result == 0)
		result = exec_self(g, &program, env.at, env.count);
	elf_program_close(&program);
	words_close(&argv);
	words_close(&env);
	return result;
}

int64_t call_execve(struct guest *g, const uint64_t a[6])
{
	char path[PATH_SIZE];
	int len = mem_string(&g->mem, path, a[0], sizeof(path));

	return len < 0 ? len : do_execve(g, path, -1, &a[1]);
}

int64_t call_execveat(struct guest *g, const uint64_t a[6])
{
	char path[PATH_SIZE];
	int len = mem_string(&g->mem, path, a[1], sizeof(path));
	char whole[PATH_SIZE];
	const char *directory;
	int length;

	if (len < 0)
		return len;
	if (path[0] == '/' || (int)a[0] == AT_FDCWD)
		return do_execve(g, path, -1, &a[2]);
	if (fds_get(a[0]) < 0 || fcntl((int)a[0], F_GETFD) < 0)
		return -EBADF;
	if (!path[0])
		return a[4] & AT_EMPTY_PATH ? do_execve(g, path, (int)a[0], &a[2]) : -ENOENT;
	directory = fds_name((int)a[0]);
	if (directory[0] != '/')
		return -ENOENT;
	length = snprintf(whole, sizeof(whole), "%s/%s", directory, path);
	return length < (int)sizeof(whole) ? do_execve(g, whole, -1, &a[2]) : -ENAMETOOLONG;
}

/* ---- ends ---- */

int64_t call_wait4(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	struct rusage usage;
	int status = 0;
	pid_t pid;

	if (a[2] & ~(uint64_t)(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	pid = wait4(pids_host((int)a[0]), &status, (int)a[2] | WNOHANG, &usage);
	if (pid < 0)
		return -errno;
	if (pid == 0 && !(a[2] & WNOHANG)) {
		thread_wait_child(t);
		return CALL_WAITS;
	}
	if (pid == 0)
		return 0;
	if (a[1] && mem_write(&g->mem, a[1], &status, sizeof(status)))
		return -EFAULT;
	if (a[3] && mem_write(&g->mem, a[3], &usage, sizeof(usage)))
		return -EFAULT;
	return pid;
}

int64_t call_waitid(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	struct rusage usage;
	siginfo_t info = { 0 };

	if ((int)a[0] == P_PIDFD && fds_get(a[1]) < 0)
		return -EBADF;
	if (syscall(SYS_waitid, (int)a[0],
		    (id_t)(a[0] == P_PGID ? pids_host((int)a[1]) : (int)a[1]), &info,
		    (int)a[3] | WNOHANG, &usage))
		return -errno;
	if (info.si_pid == 0 && !(a[3] & WNOHANG)) {
		if ((int)a[0] == P_PIDFD && fcntl((int)a[1], F_GETFL) & O_NONBLOCK)
			return -EAGAIN;
		thread_wait_child(t);
		return CALL_WAITS;
	}
	if (a[2] && mem_write(&g->mem, a[2], &info, sizeof(info)))
		return -EFAULT;
	if (a[4] && info.si_pid && mem_write(&g->mem, a[4], &usage, sizeof(usage)))
		return -EFAULT;
	return 0;
}

int64_t call_pidfd_open(struct guest *g, const uint64_t a[6])
{
	if ((unsigned)a[1] & ~(unsigned)O_NONBLOCK) /* threads are not the host's */
		return -EINVAL;
	return fds_new(g, (int)syscall(SYS_pidfd_open, pids_host((int)a[0]), (unsigned)a[1]));
}

int64_t call_exit(struct guest *g, const uint64_t a[6])
{
	thread_end(g, (int)(a[0] & 0xff));
	return CALL_SET_REGISTERS;
}

int64_t call_exit_group(struct guest *g, const uint64_t a[6])
{
	if (warm_exit(g, (uint8_t)a[0]))
		return CALL_SET_REGISTERS;
	guest_exit(g, (int)(a[0] & 0xff));
}
