#include "cell/wall/mnt.h"

#include "base/own.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <linux/mount.h>

/* Debian's and Ubuntu's C libraries differ in what they declare of these: the kernel's own. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

struct attributes {
	uint64_t set;
	uint64_t clear;
	uint64_t propagation;
	uint64_t userns_fd;
};

static struct attributes attributes_of(unsigned flags)
{
	struct attributes a = { .set = MOUNT_ATTR_NOSUID };

	if (flags & MNT_RDONLY_FLAG)
		a.set |= MOUNT_ATTR_RDONLY;
	if (flags & MNT_NODEV_FLAG)
		a.set |= MOUNT_ATTR_NODEV;
	if (flags & MNT_NOEXEC_FLAG)
		a.set |= MOUNT_ATTR_NOEXEC;
	return a;
}

static int set_attributes(int fd, const char *path, unsigned at_flags, unsigned flags)
{
	struct attributes a = attributes_of(flags);

	return (int)syscall(SYS_mount_setattr, fd, path, at_flags, &a, sizeof(a));
}

int mnt_bind_fd(int source_fd, const char *target, unsigned flags, struct err *e)
{
	auto_close int tree = (int)syscall(SYS_open_tree, source_fd, "",
		AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);

	if (tree < 0)
		return err_sys(e, "clone the mount for '%s'", target);
	if (set_attributes(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, flags))
		return err_sys(e, "restrict the mount for '%s'", target);
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH))
		return err_sys(e, "mount on '%s'", target);
	return 0;
}

int mnt_bind_fd_alone(int source_fd, const char *target, unsigned flags, struct err *e)
{
	auto_close int tree = (int)syscall(
		SYS_open_tree, source_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC);
	struct attributes a = attributes_of(flags);

	/* Else what the host mounts below it later would come along. */
	a.propagation = MS_PRIVATE;
	if (tree < 0)
		return err_sys(e, "clone the mount for '%s'", target);
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)))
		return err_sys(e, "restrict the mount for '%s'", target);
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH))
		return err_sys(e, "mount on '%s'", target);
	return 0;
}

int mnt_restrict(const char *target, unsigned flags, bool recursive, struct err *e)
{
	if (set_attributes(AT_FDCWD, target, recursive ? AT_RECURSIVE : 0, flags))
		return err_sys(e, "restrict the mount at '%s'", target);
	return 0;
}

int mnt_bind(const char *source, const char *target, unsigned flags, struct err *e)
{
	if (mount(source, target, NULL, MS_BIND, NULL))
		return err_sys(e, "bind '%s' on '%s'", source, target);
	return flags ? mnt_restrict(target, flags, false, e) : 0;
}

int mnt_tmpfs(const char *target, const char *options, unsigned flags, struct err *e)
{
	unsigned long mount_flags = MS_NOSUID;

	if (flags & MNT_NODEV_FLAG)
		mount_flags |= MS_NODEV;
	if (flags & MNT_NOEXEC_FLAG)
		mount_flags |= MS_NOEXEC;
	if (mount("tmpfs", target, "tmpfs", mount_flags, options))
		return err_sys(e, "mount a tmpfs on '%s' (%s)", target, options);
	return 0;
}

int mnt_proc(struct err *e)
{
	auto_close int context = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
	int fd;

	if (context < 0 ||
		syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "subset", "pid", 0) ||
		syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return err_sys(e, "make a /proc");
	fd = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? err_sys(e, "make a mount of /proc") : fd;
}

int mnt_pivot(const char *new_root, const char *keep_old_at, struct err *e)
{
	if (chdir(new_root))
		return err_sys(e, "chdir '%s'", new_root);
	if (syscall(SYS_pivot_root, ".", keep_old_at ? keep_old_at : "."))
		return err_sys(e, "pivot_root to '%s'", new_root);
	/* The old root now lies on top of the new one, at the same place. */
	if (!keep_old_at && umount2(".", MNT_DETACH))
		return err_sys(e, "let go of the old root");
	if (chdir("/"))
		return err_sys(e, "chdir '/'");
	return 0;
}
