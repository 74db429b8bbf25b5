#include "vmm/vcpu.h"

#include "base/fd.h"
#include "base/own.h"
#include "vmm/processor.h"
#include "vmm/stub/layout.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Flags that a program may have; the rest is the processor's. */
#define USER_FLAGS  0x40dd5ULL /* CF PF AF ZF SF TF DF OF, and AC */
#define FIXED_FLAGS 0x202ULL

static int retry_ioctl(int fd, unsigned long request, void *argument)
{
	int result;

	/* Making machines is interrupted by any timer of ours. */
	do
		result = ioctl(fd, request, argument);
	while (result < 0 && errno == EINTR);
	return result;
}

/* Out of the guest's way. */
static int move_up(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, VMM_OWN_FDS);

	if (fd >= 0)
		close(fd);
	return moved;
}

int vcpu_open(struct vcpu *cpu, int kvm_fd, struct err *e)
{
	int size = ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_run *run;

	*cpu = (struct vcpu){ .vm_fd = -1, .fd = -1, .is_pvm = cpu->is_pvm };
	if (size < (int)sizeof(struct kvm_run))
		return err_sys(e, "KVM_GET_VCPU_MMAP_SIZE");
	if ((ioctl(kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_SYNC_REGS) & KVM_SYNC_X86_REGS) == 0)
		return err_set(e, ERR_UNAVAILABLE, "this kernel's KVM cannot share registers");
	cpu->run_size = (uint32_t)size;
	cpu->vm_fd = move_up(retry_ioctl(kvm_fd, KVM_CREATE_VM, NULL));
	if (cpu->vm_fd < 0)
		return err_sys(e, "KVM_CREATE_VM");
	cpu->fd = move_up(retry_ioctl(cpu->vm_fd, KVM_CREATE_VCPU, NULL));
	if (cpu->fd < 0)
		return err_sys(e, "KVM_CREATE_VCPU");
	run = mmap(NULL, cpu->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd, 0);
	if (run == MAP_FAILED)
		return err_sys(e, "map the processor");
	__atomic_store_n(&cpu->run, run, __ATOMIC_SEQ_CST);
	if (processor_set_up(cpu, kvm_fd, e))
		return -1;
	cpu->run->kvm_valid_regs = KVM_SYNC_X86_REGS;
	cpu->stands = STANDS_IN_PROGRAM;
	return 0;
}

void vcpu_close(struct vcpu *cpu)
{
	struct kvm_run *run = __atomic_exchange_n(&cpu->run, NULL, __ATOMIC_SEQ_CST);

	/* In this order: a signal may look at it at any time. */
	if (run)
		munmap(run, cpu->run_size);
	own_close(&cpu->fd);
	own_close(&cpu->vm_fd);
}

int vcpu_add_memory(struct vcpu *cpu, uint64_t physical, uint64_t size, void *host, struct err *e)
{
	struct kvm_userspace_memory_region region = {
		.slot = cpu->slots,
		.guest_phys_addr = physical,
		.memory_size = size,
		.userspace_addr = (uint64_t)(uintptr_t)host,
	};

	if (retry_ioctl(cpu->vm_fd, KVM_SET_USER_MEMORY_REGION, &region))
		return err_sys(e, "KVM_SET_USER_MEMORY_REGION");
	cpu->slots++;
	return 0;
}

int vcpu_get_xsave(struct vcpu *cpu, struct kvm_xsave *ret)
{
	return ioctl(cpu->fd, KVM_GET_XSAVE, ret);
}

int vcpu_set_xsave(struct vcpu *cpu, const struct kvm_xsave *from)
{
	return ioctl(cpu->fd, KVM_SET_XSAVE, from);
}

int vcpu_restore(struct vcpu *cpu)
{
	if (processor_restore(cpu))
		return -1;
	cpu->loaded_fs_base = cpu->loaded_gs_base = 0;
	cpu->stands = STANDS_IN_KERNEL;
	return 0;
}

void vcpu_interrupt(struct vcpu *cpu)
{
	if (cpu->run)
		cpu->run->immediate_exit = 1;
}

static bool is_handlers(uint64_t rip)
{
	return rip >= AT_HANDLERS && rip < AT_STUB;
}

static bool is_stubs(uint64_t rip)
{
	return rip >= AT_GATE && rip < AT_STUB_END && !is_handlers(rip);
}

/* ---- in ---- */

static void load_segments(struct vcpu *cpu, const struct registers *r, unsigned ring)
{
	struct kvm_sregs *s = &cpu->run->s.regs.sregs;

	*s = cpu->user;
	processor_set_ring(s, ring);
	s->fs.base = cpu->loaded_fs_base = r->fs_base;
	s->gs.base = cpu->loaded_gs_base = r->gs_base;
	cpu->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
}

/* What SYSRET sets is what the program is to have. To an address that is none some processors do not
 * return: they complain, in ring 0. */
static bool is_sysrets(const struct kvm_regs *r)
{
	return r->rip == r->rcx && r->rip < USER_END && r->rflags == r->r11;
}

static void load(struct vcpu *cpu, const struct registers *r)
{
	struct kvm_regs *regs = &cpu->run->s.regs.regs;
	bool bases_differ = r->fs_base != cpu->loaded_fs_base || r->gs_base != cpu->loaded_gs_base;

	*regs = r->general;
	cpu->run->kvm_dirty_regs = KVM_SYNC_X86_REGS;
	if (cpu->stands == STANDS_IN_STUB)
		return;
	regs->rflags = (regs->rflags & USER_FLAGS) | FIXED_FLAGS;
	/* After a system call a PVM host's processor is in ring 3 already. Elsewhere the gate's
	 * SYSRET brings it there, to where RCX and R11 say: that is where the program is, unless it
	 * has been sent elsewhere meanwhile. */
	if (cpu->stands == STANDS_IN_KERNEL || bases_differ ||
		(cpu->stands == STANDS_AT_GATE && !cpu->is_pvm && !is_sysrets(regs)))
		load_segments(cpu, r, 3);
	else if (cpu->stands == STANDS_AT_GATE && !cpu->is_pvm)
		regs->rip = AT_GATE + 2;
}

/* ---- out ---- */

static bool has_error_code(unsigned vector)
{
	return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21;
}

/* The processor pushed the program's registers on the supervisor's stack, in a page that no program
 * can write. */
static enum vcpu_exit take_exception(
	struct vcpu *cpu, struct registers *r, const uint8_t *host, struct fault *ret)
{
	uint64_t frame[6] = { 0 };
	unsigned words = has_error_code(ret->vector) ? 6 : 5;
	uint64_t at = r->general.rsp;

	if (at < AT_KERNEL_STACK || at > AT_KERNEL_STACK_TOP - words * 8UL)
		return VCPU_BROKEN;
	memcpy(&frame[6 - words], host + at, words * 8UL);
	ret->error_code = frame[0];
	r->general.rip = frame[1];
	r->general.rflags = frame[3];
	r->general.rsp = frame[4];
	ret->in_stub = is_stubs(frame[1]) && (cpu->is_pvm || (frame[2] & 3) == 0);
	/* Nobody else is in ring 0. */
	if ((frame[2] & 3) == 0 && !ret->in_stub)
		return VCPU_BROKEN;
	cpu->stands = STANDS_IN_KERNEL;
	/* In ring 0 it cannot be gone on with: the program's registers are set in ring 3. */
	cpu->in_stub = ret->in_stub && cpu->is_pvm;
	if (ret->vector == 14) {
		struct kvm_sregs s;

		if (ioctl(cpu->fd, KVM_GET_SREGS, &s))
			return VCPU_BROKEN;
		ret->address = s.cr2;
	}
	return VCPU_EXCEPTION;
}

/* A signal came while it ran. Where the processor makes the rings, they tell the stub from a program
 * that has jumped at its address and has not got its fault yet; and a program must not go on in the
 * ring that the stub was left in. */
static enum vcpu_exit take_interrupt(struct vcpu *cpu, struct registers *r)
{
	bool is_ours = is_stubs(r->general.rip) || is_handlers(r->general.rip);
	struct kvm_sregs s;

	if (!cpu->is_pvm) {
		if (ioctl(cpu->fd, KVM_GET_SREGS, &s))
			return VCPU_BROKEN;
		if ((s.cs.selector & 3) == 0 && !is_ours)
			return VCPU_BROKEN;
		is_ours = (s.cs.selector & 3) == 0;
	}
	if (is_ours && r->general.rip == AT_GATE + 2 && !cpu->is_pvm) {
		r->general.rip = r->general.rcx;
		r->general.rflags = r->general.r11;
		cpu->stands = STANDS_AT_GATE;
		return VCPU_INTERRUPTED;
	}
	cpu->in_stub = is_ours;
	cpu->stands = is_ours ? STANDS_IN_STUB : STANDS_IN_PROGRAM;
	return VCPU_INTERRUPTED;
}

enum vcpu_exit vcpu_run(
	struct vcpu *cpu, struct registers *r, const uint8_t *host, struct fault *ret)
{
	struct kvm_run *run = cpu->run;
	int result;

	load(cpu, r);
	result = ioctl(cpu->fd, KVM_RUN, 0);
	run->immediate_exit = 0;
	r->general = run->s.regs.regs;
	cpu->in_stub = false;
	if (result < 0) {
		return errno == EINTR ? take_interrupt(cpu, r) : VCPU_BROKEN;
	}
	errno = 0;
	if (run->exit_reason != KVM_EXIT_IO || run->io.direction != KVM_EXIT_IO_OUT ||
		run->io.size != 4 || run->io.count != 1)
		return VCPU_BROKEN;
	if (run->io.port == GATE_PORT) {
		cpu->stands = STANDS_AT_GATE;
		r->general.rip = r->general.rcx;
		r->general.rflags = r->general.r11;
		return VCPU_CALL;
	}
	if (run->io.port < FAULT_PORT || run->io.port >= FAULT_PORT + 32)
		return VCPU_BROKEN;
	ret->vector = run->io.port - FAULT_PORT;
	return take_exception(cpu, r, host, ret);
}

int vcpu_try(struct vcpu *cpu)
{
	int result;

	cpu->run->immediate_exit = 1;
	result = ioctl(cpu->fd, KVM_RUN, 0);
	cpu->run->immediate_exit = 0;
	return result < 0 && errno == EINTR ? 0 : -1;
}

int vcpu_edit(struct vcpu *cpu, uint64_t count)
{
	struct kvm_run *run = cpu->run;
	struct registers r = {
		.general = {
			.rip = AT_EDITOR,
			.rsi = AT_EDITS,
			.rcx = count,
			.rsp = AT_KERNEL_STACK_TOP,
			.rflags = 2,
		},
		.fs_base = cpu->loaded_fs_base,
		.gs_base = cpu->loaded_gs_base,
	};
	int result;

	load_segments(cpu, &r, 0);
	run->s.regs.regs = r.general;
	run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
	do {
		result = ioctl(cpu->fd, KVM_RUN, 0);
		run->immediate_exit = 0;
	} while (result < 0 && errno == EINTR);
	cpu->stands = STANDS_IN_KERNEL;
	if (result < 0 || run->exit_reason != KVM_EXIT_IO || run->io.port != EDITED_PORT)
		return -1;
	return 0;
}
