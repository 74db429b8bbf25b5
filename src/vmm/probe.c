#include "vmm/probe.h"

#include "vmm/mem.h"
#include "vmm/stub/layout.h"
#include "vmm/stub/shared.h"
#include "vmm/tables.h"
#include "vmm/vcpu.h"

#include <cpuid.h>
#include <string.h>
#include <sys/ioctl.h>

enum { AT_PROBE = AT_GATE + 0x100 };

static int run_one_call(struct vcpu *cpu, struct mem *m, bool *ret, struct err *e)
{
	static const uint8_t syscall_instruction[] = { 0x0f, 0x05 };
	struct registers r = { .general = { .rip = AT_PROBE, .rsp = AT_STUB_STACK_TOP } };
	struct kvm_sregs s;
	struct fault fault;

	/* In the layout for a PVM host everything can be reached from both rings. */
	tables_init(m, true);
	memcpy(m->host + AT_PROBE, syscall_instruction, sizeof(syscall_instruction));
	((struct shared *)(void *)(m->host + AT_SHARED))->every_call_leaves = 1;
	if (mem_attach(m, cpu, e))
		return -1;
	if (vcpu_run(cpu, &r, m->host, &fault) != VCPU_CALL)
		return err_set(e, ERR_SYSTEM, "a program in a machine cannot be run here");
	if (ioctl(cpu->fd, KVM_GET_SREGS, &s))
		return err_sys(e, "KVM_GET_SREGS");
	*ret = (s.cs.selector & 3) == 3;
	return 0;
}

int probe_host(int kvm_fd, bool *ret_is_pvm, struct err *e)
{
	static struct mem memory;
	struct vcpu cpu = { .is_pvm = true }; /* as is the layout */
	int result;

	if (mem_open(&memory, 2 * CHUNK, e))
		return -1;
	result = vcpu_open(&cpu, kvm_fd, e);
	if (result == 0)
		result = run_one_call(&cpu, &memory, ret_is_pvm, e);
	vcpu_close(&cpu);
	mem_close(&memory);
	return result;
}

const char *probe_name(bool is_pvm)
{
	unsigned highest;
	unsigned vendor[3];

	if (is_pvm)
		return "pvm";
	__cpuid(0, highest, vendor[0], vendor[2], vendor[1]);
	return memcmp(vendor, "AuthenticAMD", 12) == 0 || memcmp(vendor, "HygonGenuine", 12) == 0 ?
		       "svm" :
		       "vt-x";
}
