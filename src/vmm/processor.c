#include "vmm/processor.h"

#include "base/own.h"
#include "vmm/stub/layout.h"

#include <string.h>
#include <sys/ioctl.h>
#include <x86intrin.h>

enum {
	CPUID_MAX = 256,
	KERNEL_CODE = 0x10,
	KERNEL_DATA = 0x18,
	USER_DATA = 0x2b,
	USER_CODE = 0x33,
	TASK_STATE = 0x40,
	TSS_LIMIT = 0x67 + 8193,
	CR4_GLOBAL_PAGES = 0x80,
	CR4_NO_TABLE_ADDRESSES = 1 << 11, /* UMIP: SGDT and its kind are the supervisor's */
	CR4_NO_USER_CODE = 1 << 20,       /* SMEP: a program's code is not executed in ring 0 */
};

#define MSR_TSC 0x10U

/* ---- segments and control registers ---- */

static struct kvm_segment segment(uint16_t selector, uint8_t type, uint8_t ring, bool is_code)
{
	return (struct kvm_segment){
		.selector = selector,
		.limit = 0xffffffff,
		.present = 1,
		.type = type,
		.dpl = ring,
		.s = 1,
		.l = is_code,
		.db = !is_code,
		.g = 1,
	};
}

void processor_set_ring(struct kvm_sregs *s, unsigned ring)
{
	s->cs = segment(ring ? USER_CODE : KERNEL_CODE, 11, (uint8_t)ring, true);
	s->ss = segment(ring ? USER_DATA : KERNEL_DATA, 3, (uint8_t)ring, false);
}

static int set_extended_state(struct vcpu *cpu)
{
	struct kvm_xcrs xcrs = { .nr_xcrs = 1, .xcrs[0].value = 7 }; /* x87, SSE, AVX */

	if (ioctl(cpu->fd, KVM_SET_XCRS, &xcrs) == 0)
		return 0;
	xcrs.xcrs[0].value = 3;
	return ioctl(cpu->fd, KVM_SET_XCRS, &xcrs);
}

static int set_control_registers(struct vcpu *cpu, uint64_t guards, struct err *e)
{
	struct kvm_sregs *s = &cpu->user;

	if (ioctl(cpu->fd, KVM_GET_SREGS, s))
		return err_sys(e, "KVM_GET_SREGS");
	s->cr0 = 0x80050033;
	s->cr3 = AT_PML4;
	s->cr4 = 0x40620 | guards; /* PAE, FXSR, SSE exceptions, XSAVE */
	s->efer = 0xd01;           /* SYSCALL, long mode, no-execute */
	processor_set_ring(s, 3);
	s->ds = s->es = s->fs = s->gs = segment(USER_DATA, 3, 3, false);
	s->gdt.base = AT_GDT;
	s->gdt.limit = 10 * 8 - 1;
	s->idt.base = AT_IDT;
	s->idt.limit = 32 * 16 - 1;
	s->tr = (struct kvm_segment){
		.selector = TASK_STATE,
		.base = AT_TSS,
		.limit = TSS_LIMIT,
		.type = 11,
		.present = 1,
	};
	s->ldt = (struct kvm_segment){ .unusable = 1 };
	if (ioctl(cpu->fd, KVM_SET_SREGS, s))
		return err_sys(e, "KVM_SET_SREGS");
	return set_extended_state(cpu) ? err_sys(e, "KVM_SET_XCRS") : 0;
}

/* ---- model-specific registers ---- */

static int set_msrs(struct vcpu *cpu)
{
	static const struct kvm_msr_entry wanted[] = {
		{ .index = 0xc0000081, /* STAR */
			.data = (0x23ULL << 48) | ((uint64_t)KERNEL_CODE << 32) },
		{ .index = 0xc0000082, .data = AT_STUB }, /* LSTAR */
		{ .index = 0xc0000084, .data = 0x47700 }, /* FMASK: what SYSCALL clears */
		/* There is no other way into ring 0, and nothing hidden behind SWAPGS. */
		{ .index = 0xc0000083 }, /* CSTAR */
		{ .index = 0xc0000102 }, /* KERNEL_GS_BASE */
		{ .index = 0x174 },      /* SYSENTER_CS */
		{ .index = 0x175 },      /* SYSENTER_ESP */
		{ .index = 0x176 },      /* SYSENTER_EIP */
	};
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entries[COUNT(wanted)];
	} msrs = { 0 };

	/* A PVM host needs the first three; every other one costs time at each start. */
	msrs.head.nmsrs = cpu->is_pvm ? 3 : COUNT(wanted);
	memcpy(msrs.entries, wanted, sizeof(wanted));
	return ioctl(cpu->fd, KVM_SET_MSRS, &msrs) == (int)msrs.head.nmsrs ? 0 : -1;
}

/* The stub counts from what the VMM has read: both must read the same counter. KVM begins each
 * machine's at 0, but for a PVM host's, which has no counter of its own. */
static int set_time_stamp_counter(struct vcpu *cpu)
{
	uint64_t offset = 0;
	struct kvm_device_attr attribute = {
		.group = KVM_VCPU_TSC_CTRL,
		.attr = KVM_VCPU_TSC_OFFSET,
		.addr = (uint64_t)(uintptr_t)&offset,
	};
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} msr = { .head.nmsrs = 1, .entry.index = MSR_TSC };

	if (ioctl(cpu->fd, KVM_SET_DEVICE_ATTR, &attribute) == 0)
		return 0;
	/* Before Linux 5.16: as good as one can aim. */
	msr.entry.data = __rdtsc();
	return ioctl(cpu->fd, KVM_SET_MSRS, &msr) == 1 ? 0 : -1;
}

/* ---- what programs are told of the processor ---- */

/* What the machine does not have for its programs, or what would let whoever has ring 0 by some
 * mistake into KVM's larger rooms. */
static const struct hidden {
	uint32_t function;
	uint32_t index;
	uint32_t eax, ebx, ecx, edx;
	const char *why;
} hidden[] = {
	{ .function = 1, .ecx = 1 << 5, .why = "VMX: no machines in machines" },
	{ .function = 0x80000001, .ecx = 1 << 2, .why = "SVM: likewise" },
	{ .function = 0x8000000a, .eax = ~0U, .ebx = ~0U, .ecx = ~0U, .edx = ~0U, .why = "SVM" },
	{ .function = 7, .ebx = 1 << 0, .why = "FSGSBASE: the VMM keeps the bases" },
	{ .function = 7, .ebx = 1 << 2, .why = "SGX" },
	{ .function = 0xa, .eax = ~0U, .ebx = ~0U, .ecx = ~0U, .edx = ~0U, .why = "counters" },
	{ .function = 0x40000001, .eax = ~0U, .edx = ~0U, .why = "KVM's services for kernels" },
};

static struct {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[CPUID_MAX];
} cpuid; /* the same for every machine of this process */

static struct kvm_cpuid_entry2 *find_cpuid(uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < cpuid.head.nent; i++)
		if (cpuid.entries[i].function == function && cpuid.entries[i].index == index)
			return &cpuid.entries[i];
	return NULL;
}

static int get_cpuid(int kvm_fd)
{
	cpuid.head.nent = CPUID_MAX;
	if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, &cpuid)) {
		cpuid.head.nent = 0;
		return -1;
	}
	for (size_t i = 0; i < COUNT(hidden); i++) {
		struct kvm_cpuid_entry2 *entry = find_cpuid(hidden[i].function, hidden[i].index);

		if (!entry)
			continue;
		entry->eax &= ~hidden[i].eax;
		entry->ebx &= ~hidden[i].ebx;
		entry->ecx &= ~hidden[i].ecx;
		entry->edx &= ~hidden[i].edx;
	}
	return 0;
}

void processor_save_features(char ret[PROCESSOR_FEATURES_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = (const uint8_t *)cpuid.entries;
	size_t size = cpuid.head.nent * sizeof(cpuid.entries[0]);
	size_t at = 0;

	for (size_t i = 0; i < size && at + 3 < PROCESSOR_FEATURES_SIZE; i++) {
		ret[at++] = digits[from[i] >> 4];
		ret[at++] = digits[from[i] & 15];
	}
	ret[at] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void processor_load_features(const char *text)
{
	uint8_t *to = (uint8_t *)cpuid.entries;
	size_t size = strlen(text) / 2;

	/* Not what one of us has written: KVM is asked. */
	if (strlen(text) % 2 || size % sizeof(cpuid.entries[0]) || size > sizeof(cpuid.entries))
		return;
	for (size_t i = 0; i < size; i++) {
		int high = digit(text[2 * i]);
		int low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return;
		to[i] = (uint8_t)(high << 4 | low);
	}
	cpuid.head.nent = (uint32_t)(size / sizeof(cpuid.entries[0]));
}

/* What this processor has to keep ring 0 from a program. A PVM host has its own ways. */
static uint64_t guards(const struct vcpu *cpu)
{
	const struct kvm_cpuid_entry2 *features = find_cpuid(7, 0);
	uint64_t bits = 0;

	if (cpu->is_pvm || !features)
		return 0;
	if (features->ebx & 1 << 7)
		bits |= CR4_NO_USER_CODE;
	if (features->ecx & 1 << 2)
		bits |= CR4_NO_TABLE_ADDRESSES;
	return bits;
}

/* ---- all of it ---- */

int processor_set_up(struct vcpu *cpu, int kvm_fd, struct err *e)
{
	if (cpuid.head.nent == 0 && get_cpuid(kvm_fd))
		return err_sys(e, "KVM_GET_SUPPORTED_CPUID");
	if (ioctl(cpu->fd, KVM_SET_CPUID2, &cpuid))
		return err_sys(e, "KVM_SET_CPUID2");
	if (set_control_registers(cpu, guards(cpu), e))
		return -1;
	if (set_msrs(cpu))
		return err_sys(e, "KVM_SET_MSRS");
	if (!cpu->is_pvm && set_time_stamp_counter(cpu))
		return err_sys(e, "set the time stamp counter");
	return 0;
}

int processor_restore(struct vcpu *cpu)
{
	struct kvm_debugregs debug = { .dr6 = 0xffff0ff0, .dr7 = 0x400 };
	/* Nothing is pending, and nothing is put off. */
	struct kvm_vcpu_events events = { .flags = KVM_VCPUEVENT_VALID_SHADOW };
	struct kvm_sregs changed = cpu->user;

	/* KVM forgets translations when a bit of CR4 changes that matters for them. */
	changed.cr4 ^= CR4_GLOBAL_PAGES; /* there are none */
	if (ioctl(cpu->fd, KVM_SET_SREGS, &changed) || ioctl(cpu->fd, KVM_SET_SREGS, &cpu->user))
		return -1;
	if (ioctl(cpu->fd, KVM_SET_DEBUGREGS, &debug) ||
		ioctl(cpu->fd, KVM_SET_VCPU_EVENTS, &events))
		return -1;
	return set_msrs(cpu) || set_extended_state(cpu) ? -1 : 0;
}
