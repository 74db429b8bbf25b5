/* Theory of operation
 *
 * Once: the warden moves into a mount namespace of its own (and, without root, a user namespace of
 * its own), builds the template root there, and lets go of the machine's files.
 *
 * Per cell: clone3 gives the child all its namespaces at birth. The child starts to build while
 * the warden writes its id map; then it waits for the map, finishes, and becomes the keeper.
 *
 * A network namespace takes longer to make than all the rest together. So the warden always sits
 * in the one that the *next* cell will have: the child inherits it, and the warden makes itself
 * another one when it has nothing better to do. It needs no network, so it never misses it. */
#include "cell/wall/wall.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "cell/wall/enter.h"
#include "cell/wall/landlock.h"
#include "cell/wall/seccomp.h"
#include "cell/wall/template.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct wall {
	bool holds_vmm;
	struct template template;
	struct sock_fprog filter;
	struct sock_fprog filter_with_mounts; /* if there can be any */
	int landlock_abi;
	bool mask_exists[ENTER_MASKS_MAX];
	void (*inside)(const struct cell_inside *inside);
	int host_net_fd;      /* -1 unless cells may have the machine's network */
	bool may_return;      /* we may setns() back into the machine's network */
	bool network_is_free; /* the namespace that we sit in belongs to no cell */
	pid_t network_maker;  /* a child that makes the first one meanwhile; 0 = none */
};

static int write_own_map(const char *file, unsigned id)
{
	char line[64];

	snprintf(line, sizeof(line), "%u %u 1", id, id);
	return fd_write_text(AT_FDCWD, file, line);
}

/* Without root: all rights, but only over what we make in here. */
static int enter_user_namespace(struct err *e)
{
	unsigned uid = geteuid();
	unsigned gid = getegid();

	if (unshare(CLONE_NEWUSER))
		return err_set(e, ERR_UNAVAILABLE,
			"user namespaces are not allowed here (%s); 'hotcell doctor' says how to allow them",
			strerror(errno));
	fd_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (write_own_map("/proc/self/uid_map", uid) || write_own_map("/proc/self/gid_map", gid))
		return err_set(e, ERR_UNAVAILABLE,
			"the id map of a user namespace may not be written here (%s); 'hotcell doctor' "
			"says how to allow it",
			strerror(errno));
	return 0;
}

/* The first network namespace is made by a child while we build the template. The child shares our
 * descriptors, so the one that it opens is ours too; its exit status says which it is. */
static void start_network_maker(struct wall *w)
{
	int pid_fd;
	pid_t pid = isolation_clone(CLONE_FILES, -1, &pid_fd);

	if (pid == 0) {
		int fd =
			unshare(CLONE_NEWNET) ? 0 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

		_exit(fd > 0 && fd < 256 ? fd : 0);
	}
	if (pid < 0)
		return; /* then it is made when it is needed */
	close(pid_fd);
	w->network_maker = pid;
}

static void enter_made_network(struct wall *w)
{
	auto_close int fd = -1;
	int status;

	if (waitpid(w->network_maker, &status, __WALL) == w->network_maker && WIFEXITED(status) &&
		WEXITSTATUS(status) > 0) {
		fd = WEXITSTATUS(status);
		w->network_is_free = setns(fd, CLONE_NEWNET) == 0;
	}
	w->network_maker = 0;
}

static int enter_namespaces(struct wall *w, bool host_network, struct err *e)
{
	bool as_root = geteuid() == 0;

	if (host_network)
		w->host_net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (!as_root || unshare(CLONE_NEWNS)) {
		if (as_root && errno != EPERM)
			return err_sys(e, "mount namespace");
		as_root = false;
		if (enter_user_namespace(e))
			return -1;
		if (unshare(CLONE_NEWNS))
			return err_sys(e, "mount namespace");
	}
	w->may_return = as_root;
	/* Who may not return must stay, if cells are to have the machine's network. */
	if (!host_network || w->may_return)
		start_network_maker(w);
	return 0;
}

/* Looked up once, not for every cell: the same kernel makes all their /procs. */
static void find_masks(struct wall *w)
{
	const char *const *masks;
	unsigned count = enter_masks(&masks);

	for (unsigned i = 0; i < count; i++)
		w->mask_exists[i] = access(masks[i], F_OK) == 0;
}

static int compile_filters(struct wall *w, const struct isolation_options *options, struct err *e)
{
	struct seccomp_options wanted = {
		.memory_is_soft = options->memory_is_soft,
		.is_vm = w->holds_vmm,
	};

	if (seccomp_compile(&wanted, &w->filter, e))
		return -1;
	wanted.has_mounts = true;
	return w->template.host_dirs.paths ? seccomp_compile(&wanted, &w->filter_with_mounts, e) :
					     0;
}

int wall_prepare(
	const struct isolation_options *options, const char *vmm, void **ret_state, struct err *e)
{
	struct wall *w = xalloc(sizeof(*w));

	*ret_state = w;
	w->host_net_fd = -1;
	w->holds_vmm = vmm != NULL;
	w->inside = options->inside;
	w->landlock_abi = landlock_abi();
	find_masks(w);
	if (enter_namespaces(w, options->host_network, e))
		return -1;
	if (template_build(&w->template,
		    &(struct template_options){
			    .drivers = options->drivers,
			    .mount_dirs = options->mount_dirs,
			    .host_network = options->host_network,
			    .vmm = vmm,
		    },
		    e))
		return err_wrap(e, "build the template root");
	return compile_filters(w, options, e);
}

int wall_allow(void *state, const char *path, struct err *e)
{
	struct wall *w = state;

	return template_allow(&w->template, path, e);
}

int wall_find_need(void *state, const char *path)
{
	struct wall *w = state;

	return template_find_need(&w->template, path);
}

int wall_find_mount(void *state, const char *source, const char **ret_below, struct err *e)
{
	struct wall *w = state;

	return host_dirs_find(&w->template.host_dirs, source, ret_below, e);
}

int wall_seal(void *state, struct err *e)
{
	struct wall *w = state;

	/* Done by now, or almost; and nobody else would reap it. */
	if (w->network_maker)
		enter_made_network(w);
	return template_seal(&w->template, e);
}

/* Puts us where the next cell's network is to be. Returns the clone flag that it takes besides. */
static int choose_network(
	struct wall *w, enum network_kind network, unsigned long long *ret_flag, struct err *e)
{
	*ret_flag = 0;
	if (network == NETWORK_HOST) {
		if (w->host_net_fd < 0)
			return err_set(e, ERR_UNAVAILABLE,
				"the machine's network was not allowed when the warden was started");
		if (w->may_return) {
			if (setns(w->host_net_fd, CLONE_NEWNET))
				return err_sys(e, "return to the machine's network");
			w->network_is_free = false;
		}
		return 0;
	}
	if (w->host_net_fd >= 0 && !w->may_return) {
		*ret_flag = CLONE_NEWNET;
		return 0;
	}
	if (!w->network_is_free && unshare(CLONE_NEWNET))
		return err_sys(e, "network namespace");
	w->network_is_free = false;
	return 0;
}

void wall_get_ahead(void *state)
{
	struct wall *w = state;

	if (w->network_is_free || (w->host_net_fd >= 0 && !w->may_return))
		return;
	w->network_is_free = unshare(CLONE_NEWNET) == 0;
}

static int write_map(pid_t pid, const char *file, unsigned outside, struct err *e)
{
	char path[64];
	char line[64];

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, file);
	snprintf(line, sizeof(line), "%d %u 1", CELL_UID, outside);
	return fd_write_text(AT_FDCWD, path, line) ? err_sys(e, "write %s", file) : 0;
}

static _Noreturn void child(struct wall *w, struct entry *entry)
{
	const struct cell_inside inside = {
		.runs_vmm = w->holds_vmm,
		.workspace = "/workspace",
		.tmp = "/tmp",
		.kill_all_is_safe = true,
		.owns_disk = true,
	};
	struct err e = { 0 };
	int report_fd = entry->spec->report_fd;

	if (enter(entry, &e))
		/* Before the descriptors were arranged it had its own number. */
		isolation_child_failed(
			fcntl(KEEPER_REPORT_FD, F_GETFD) >= 0 ? KEEPER_REPORT_FD : report_fd, &e);
	close(KEEPER_REPORT_FD);
	w->inside(&inside);
	_exit(0);
}

int wall_make(void *state, const struct cell_spec *spec, struct isolation_made *ret, struct err *e)
{
	struct wall *w = state;
	struct entry entry = {
		.spec = spec,
		.template = &w->template,
		.filter = spec->mounts_count ? &w->filter_with_mounts : &w->filter,
		.landlock_abi = w->landlock_abi,
		.holds_vmm = w->holds_vmm,
		.mask_exists = w->mask_exists,
	};
	unsigned long long flags =
		CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	unsigned long long network_flag;
	int mapped[2];
	int into;
	int failed;

	if (choose_network(w, spec->network, &network_flag, e))
		return -1;
	if (pipe2(mapped, O_CLOEXEC))
		return err_sys(e, "pipe");
	entry.mapped_fd = mapped[0];
	entry.tasks_count = cgroup_entrances(spec->cgroup, &into, entry.tasks);
	ret->workspace = "/workspace";
	ret->pid = isolation_clone(flags | network_flag, into, &ret->pid_fd);
	if (ret->pid == 0) {
		close(mapped[1]);
		child(w, &entry);
	}
	failed = ret->pid < 0 ? err_sys(e, "clone3") : 0;
	if (!failed)
		failed = write_map(ret->pid, "uid_map", spec->uid, e) ||
					 write_map(ret->pid, "gid_map", spec->gid, e) ?
				 -1 :
				 0;
	/* A child that gets no byte here sees the end of the pipe, and ends. */
	if (!failed && fd_write_all(mapped[1], "m", 1))
		failed = err_sys(e, "tell the child");
	close(mapped[0]);
	close(mapped[1]);
	for (int i = 0; i < entry.tasks_count; i++)
		close(entry.tasks[i]);
	if (failed && ret->pid > 0) {
		waitid(P_PIDFD, (id_t)ret->pid_fd, &(siginfo_t){ 0 }, WEXITED | __WALL);
		close(ret->pid_fd);
	}
	return failed;
}

void wall_clear(void *state, pid_t pid)
{
	(void)state;
	(void)pid; /* all of it lived in namespaces that died with it */
}

void wall_close(void *state)
{
	struct wall *w = state;

	if (!w)
		return;
	if (w->network_maker)
		enter_made_network(w);
	free(w->filter.filter);
	free(w->filter_with_mounts.filter);
	host_dirs_close(&w->template.host_dirs);
	for (unsigned i = 0; i < w->template.needs_count; i++)
		free(w->template.needs[i]);
	own_close(&w->host_net_fd);
	free(w);
}
