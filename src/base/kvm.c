#include "base/kvm.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>

static int fail(struct err *e)
{
	int error = errno;

	err_set(e, ERR_UNAVAILABLE, "/dev/kvm: %s",
		error == ENOENT ? "not there" : strerror(error));
	e->sys_errno = error;
	return -1;
}

int kvm_open(struct err *e)
{
	auto_close int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version;

	if (fd < 0)
		return fail(e);
	version = ioctl(fd, KVM_GET_API_VERSION, 0);
	if (version < 0)
		return fail(e);
	if (version != KVM_API_VERSION)
		return err_set(e, ERR_UNAVAILABLE, "/dev/kvm: API version %d, and %d is wanted",
			version, KVM_API_VERSION);
	return take_fd(&fd);
}
