/* Ways into ring 0 of one's own machine, for hosts whose processor makes the rings. Part of probes.c.
 *
 * Whoever had ring 0 would still be in the machine; but it could change what a later run finds there,
 * and all of KVM's nested and privileged parts would be before it. What leads there, and what stands
 * in the way:
 *
 *	privileged instructions          they fault; the KVM features behind them are not offered
 *	gates, segments, far transfers   no segment of ring 0 can be reached, there are no call gates,
 *	                                 and of the interrupt gates only 3 and 4 are open
 *	the VMM's mistakes               it must know in which ring it lets a program go on
 *	SYSRET and IRET                  addresses and flags that a signal frame names are the program's
 *	the stub, which is in ring 0     as a deputy: it writes where a program says, which is checked
 *	the supervisor's pages           not readable, not writable, and the code in them not even for
 *	                                 ring 0
 *
 * They hold on a PVM host as well, where there is no ring 0 to be had. */

static unsigned ring(void)
{
	uint16_t segment;

	__asm__ volatile("mov %%cs, %0" : "=r"(segment));
	return segment & 3;
}

/* ---- privileged instructions ---- */

#define IS_REFUSED (got == SIGSEGV || got == SIGILL)
#define IS_NOTHING (IS_REFUSED || got == 0)

PROBE_INSTRUCTION(read_dr0, got == SIGSEGV, "mov %%dr0, %%rax" : : : "rax")
PROBE_INSTRUCTION(write_dr0, got == SIGSEGV, "mov %%rax, %%dr0" : : "a"(0x12000))
PROBE_INSTRUCTION(write_cr0, got == SIGSEGV, "mov %%rax, %%cr0" : : "a"(0x80000011))
PROBE_INSTRUCTION(write_cr8, got == SIGSEGV, "mov %%rax, %%cr8" : : "a"(0))
PROBE_INSTRUCTION(do_rdpmc, IS_REFUSED, "rdpmc" : : "c"(0) : "rax", "rdx")
PROBE_INSTRUCTION(do_invd, got == SIGSEGV, "invd" : :)
PROBE_INSTRUCTION(do_invpcid, IS_REFUSED, "invpcid (%0), %1" : : "r"(&back), "r"(2UL))
PROBE_INSTRUCTION(do_monitor, IS_REFUSED, "monitor" : : "a"(&back), "c"(0), "d"(0))
PROBE_INSTRUCTION(do_mwait, IS_REFUSED, "mwait" : : "a"(0), "c"(0))
PROBE_INSTRUCTION(do_vmload, IS_REFUSED, "vmload" : : "a"(0x1000))
PROBE_INSTRUCTION(do_vmsave, IS_REFUSED, "vmsave" : : "a"(0x1000))
PROBE_INSTRUCTION(do_stgi, IS_REFUSED, "stgi" : :)
PROBE_INSTRUCTION(do_clgi, IS_REFUSED, "clgi" : :)
PROBE_INSTRUCTION(do_skinit, IS_REFUSED, "skinit" : : "a"(0x1000))
PROBE_INSTRUCTION(do_invlpga, IS_REFUSED, "invlpga" : : "a"(0x200000), "c"(0))
PROBE_INSTRUCTION(do_vmxon, IS_REFUSED, "vmxon (%0)" : : "r"(&back))
PROBE_INSTRUCTION(do_vmlaunch, IS_REFUSED, "vmlaunch" : :)
PROBE_INSTRUCTION(do_vmread, IS_REFUSED, "vmread %%rax, %%rcx" : : "a"(0) : "rcx")
PROBE_INSTRUCTION(do_invept, IS_REFUSED, "invept (%0), %1" : : "r"(&back), "r"(2UL))
PROBE_INSTRUCTION(do_rsm, IS_REFUSED, "rsm" : :)
PROBE_INSTRUCTION(do_xsaves, IS_REFUSED, "xsaves (%0)" : : "r"(&back), "a"(0), "d"(0))
PROBE_INSTRUCTION(do_encls, IS_REFUSED, ".byte 0x0f, 0x01, 0xcf" : : "a"(0))
PROBE_INSTRUCTION(do_wrpkru, IS_REFUSED, "wrpkru" : : "a"(0), "c"(0), "d"(0))
/* A trap without a breakpoint. It asks nobody's permission: on a stack of its own, or nowhere. */
PROBE_INSTRUCTION(do_icebp, got == SIGTRAP || IS_REFUSED, ".byte 0xf1" : :)
/* Allowed on some processors. Then only the program's own base changes, which it may set anyway. */
PROBE_INSTRUCTION(do_wrgsbase, IS_NOTHING, "wrgsbase %0" : : "r"(0x12000UL))
PROBE_INSTRUCTION(do_wrfsbase_back, IS_NOTHING, "rdfsbase %%rax; wrfsbase %%rax" : : : "rax")

/* Where the tables are is no secret, but processors that can keep it do. */
static void table_addresses(void)
{
	char place[16];

	(void)SIGNAL_OF(__asm__ volatile("sgdt (%0)" : : "r"(place) : "memory"));
	(void)SIGNAL_OF(__asm__ volatile("sidt (%0)" : : "r"(place) : "memory"));
	(void)SIGNAL_OF(__asm__ volatile("sldt (%0)" : : "r"(place) : "memory"));
	(void)SIGNAL_OF(__asm__ volatile("str (%0)" : : "r"(place) : "memory"));
	(void)SIGNAL_OF(__asm__ volatile("smsw (%0)" : : "r"(place) : "memory"));
	/* They write as a program does: not into what is the supervisor's. */
	for (uint64_t at = 0x1000; at < GATE; at += PAGE)
		MUST_BE(SIGSEGV, __asm__ volatile("sgdt (%0)" : : "r"(at) : "memory"));
}

/* ---- segments and gates ---- */

static void far_transfers(void)
{
	struct {
		uint64_t offset;
		uint16_t selector;
	} __attribute__((packed)) to = { 0, 0 };

	/* All of the descriptor table, and behind it; in it and beside it. */
	for (unsigned selector = 0; selector < 0x80; selector++) {
		int got;

		if ((selector & ~3U) == 0x30)
			continue; /* the program's own */
		to.selector = (uint16_t)selector;
		to.offset = 0x12000;
		got = SIGNAL_OF(__asm__ volatile("rex.w lcall *(%0)" : : "r"(&to) : "memory"));
		MUST(got == SIGSEGV || got == SIGBUS || got == SIGILL);
		got = SIGNAL_OF(__asm__ volatile("rex.w ljmp *(%0)" : : "r"(&to) : "memory"));
		MUST(got == SIGSEGV || got == SIGBUS || got == SIGILL);
		MUST(ring() == 3);
	}
}

static void data_segments(void)
{
	/* Those that load are the program's own, or none. */
	for (unsigned selector = 0; selector < 0x80; selector++) {
		(void)SIGNAL_OF(__asm__ volatile("mov %0, %%ds" : : "r"(selector)));
		(void)SIGNAL_OF(__asm__ volatile("mov %0, %%es" : : "r"(selector)));
		(void)SIGNAL_OF(__asm__ volatile("mov %0, %%gs" : : "r"(selector)));
		(void)SIGNAL_OF(__asm__ volatile("mov %0, %%ss; mov %1, %%ss"
						 :
						 : "r"(selector), "r"(0x2b)));
		MUST(ring() == 3 && S0(SYS_getppid) == getppid());
	}
	MUST_BE(SIGSEGV, __asm__ volatile("mov %0, %%ss" : : "r"(0x18)));
}

/* Traps are put off by one instruction after MOV SS; if that is SYSCALL, until ring 0. */
static void trap_in_ring_0(void)
{
	static const uint64_t calls[] = { SYS_getpid, SYS_getppid };

	for (size_t i = 0; i < COUNT(calls); i++) {
		int got = SIGNAL_OF(__asm__ volatile(
			"mov %%ss, %%edx; pushf; orl $0x100, (%%rsp); popf; mov %%edx, %%ss;"
			"syscall; nop; nop"
			:
			: "a"(calls[i])
			: "rcx", "rdx", "r11", "memory"));

		MUST(got == SIGTRAP || got == 0);
		got = SIGNAL_OF(__asm__ volatile("mov %%ss, %%edx; mov %%edx, %%ss; int3"
						 :
						 :
						 : "rdx", "memory"));
		MUST(got == SIGTRAP && ring() == 3);
	}
}

/* ---- going on in the right ring ---- */

static volatile sig_atomic_t alarms;

static void on_alarm_in_ring(int number)
{
	(void)number;
	alarms++;
	if (ring() != 3)
		wrong("a handler in ring", ring());
}

/* Signals at any moment: in the program, in the stub, between it and its return. Wherever it was, the
 * program goes on in ring 3. */
static void ring_after_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_alarm_in_ring, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL,
		&(struct itimerval){ .it_interval.tv_usec = 2000, .it_value.tv_usec = 2000 }, NULL);
	while (alarms < 300)
		for (int i = 0; i < 1000; i++) {
			S0(SYS_getpid);
			if (ring() != 3)
				wrong("after a call that the stub answers, in ring", ring());
			if (i % 100)
				continue;
			S0(SYS_getppid);
			if (ring() != 3)
				wrong("after a call that leaves, in ring", ring());
		}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

/* No call leaves, so that nothing but the VMM's own clock ever interrupts: for two seconds, which is
 * often enough to be met on the last step of the stub's way back. */
static void ring_after_ticks(void)
{
	struct timespec now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + 3;
	while (now.tv_sec < end) {
		for (int i = 0; i < 1000; i++) {
			S0(SYS_getpid);
			if (ring() != 3)
				wrong("after a call that the stub answers, in ring", ring());
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
}

/* A signal while a program stands, in ring 3, where only the stub should. */
static void jump_under_signals(uint64_t to)
{
	struct sigaction action = { .sa_handler = on_alarm_in_ring };

	catch_faults();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL,
		&(struct itimerval){ .it_interval.tv_usec = 1000, .it_value.tv_usec = 1000 }, NULL);
	for (int i = 0; i < 300 || alarms < 5; i++) {
		int got = SIGNAL_OF(__asm__ volatile("mov %0, %%rcx; mov $0x202, %%r11d; jmp *%0"
						     :
						     : "r"(to)
						     : "rcx", "r11", "memory"));

		if (got == 0 || ring() != 3)
			wrong("it went through", got);
	}
}

static void handlers_under_signals(void)
{
	/* The gate and the stub are a program's own on a PVM host: see gate_jumps. */
	int status = in_child(jump_under_signals, 0x11000);

	MUST(status == 0);
	status = in_child(jump_under_signals, 0x11400);
	MUST(status == 0);
}

/* ---- SYSRET, and what a signal frame may say ---- */

static uint64_t frame_rip;
static uint64_t frame_flags;

/* As the VMM would find them after a call, so that it may take the short way back. */
static void set_frame_like_sysret(int number, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	r[REG_RIP] = r[REG_RCX] = (greg_t)frame_rip;
	r[REG_EFL] = r[REG_R11] = (greg_t)frame_flags;
}

static void return_like_sysret(uint64_t unused)
{
	struct sigaction action = { .sa_sigaction = set_frame_like_sysret, .sa_flags = SA_SIGINFO };

	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static void arrived(void)
{
	unsigned here = ring();
	uint64_t now;

	/* There may be any flags and no stack to speak of. */
	__asm__ volatile("pushf; pop %0" : "=r"(now));
	_exit(here != 3 ? 97 : (now & 0x3000) ? 96 : 0);
}

static void sysret_anywhere(void)
{
	static const uint64_t places[] = { 0x1000, 0x10000, 0x10002, 0x11000, 0x11400, 0x12000,
		0x18000, 0x100000, 0x7fff00000000, 0x7fff80000000, 0x7ffffffffffe, 0x7fffffffffff,
		0x800000000000, 0x800000000001, 0xffff7fffffffffff, 0xffff800000000000,
		UINT64_MAX };

	frame_flags = 0x202;
	for (size_t i = 0; i < COUNT(places); i++) {
		frame_rip = places[i];
		MUST(ended_by_fault(in_child(return_like_sysret, 0)));
	}
	frame_rip = (uint64_t)(uintptr_t)arrived;
	for (int bit = 0; bit < 64; bit++) {
		int status;

		frame_flags = 0x202 | 1UL << bit;
		status = in_child(return_like_sysret, 0);
		/* Single steps are a trap. */
		if (status != 0 && !ended_by_fault(status))
			wrong("returned with flag", bit);
	}
	frame_flags = 0x3202;
	MUST(in_child(return_like_sysret, 0) == 0);
}

static void flags_by_iret(void)
{
	/* To ring 3, where it may go, with rights to ports and with interrupts off. */
	static const uint64_t wanted[] = { 0x3202, 0x3002, 0x2, 0x4202, 0x20202, 0x80202,
		0x100202 };

	for (size_t i = 0; i < COUNT(wanted); i++) {
		uint64_t now = 0;
		int got = SIGNAL_OF(__asm__ volatile(
			"mov %%rsp, %%rdx; mov %%ss, %%eax; push %%rax; push %%rdx; push %1;"
			"mov %%cs, %%eax; push %%rax; lea 1f(%%rip), %%rax; push %%rax; iretq;"
			"1: pushf; pop %0"
			: "=r"(now)
			: "r"(wanted[i])
			: "rax", "rdx", "memory"));

		MUST(got == 0 || got == SIGSEGV);
		MUST((now & 0x3000) == 0 && ring() == 3);
		MUST_BE(SIGSEGV, out_byte(0x80));
		MUST_BE(SIGSEGV, __asm__ volatile("cli"));
	}
}

static void jump_with_number(uint64_t number)
{
	__asm__ volatile("jmp *%1" : : "a"(number), "r"(0x7fff00000000 - 2) : "rcx", "r11");
}

/* The last instruction before what is not the program's: SYSRET returns to behind it. */
static void call_at_the_end(void)
{
	uint64_t page = 0x7fff00000000 - PAGE;
	uint8_t *code = mmap((void *)page, PAGE, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	MUST(code == (uint8_t *)page);
	memcpy(code + PAGE - 2, "\x0f\x05", 2);
	MUST(ended_by_fault(in_child(jump_with_number, SYS_getpid)));
	MUST(ended_by_fault(in_child(jump_with_number, SYS_getppid)));
}

/* ---- the stub as a deputy ---- */

static void deputy(void)
{
	static const uint64_t places[] = { 0, 0x1000, 0x1008, 0x4000, 0x5010, 0x6000, 0x60e0,
		0x8004, 0x10000, 0x11000, 0x12000, 0x17ff8, 0x18000, 0x18008, 0x18ff0, 0x19000,
		0x1e000, 0x1f000, 0x1f070, 0x20000, 0x100000, 0x1ffff0, 0x1ffff8, 0x1fffff,
		0x7ffefffffff8, 0x7fff00000000, 0x7fff80000000, 0x7ffffffffff8, 0x800000000000,
		0xffff800000000000, UINT64_MAX - 15, UINT64_MAX - 7, UINT64_MAX };
	static const int unwritable[] = { PROT_NONE, PROT_READ, PROT_EXEC, PROT_READ | PROT_EXEC };
	uint8_t *page = mmap(NULL, 2 * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < COUNT(places); i++) {
		MUST(S3(SYS_clock_gettime, 0, places[i], 0) == -EFAULT);
		MUST(S3(SYS_clock_gettime, 1, places[i], 0) == -EFAULT || places[i] == 0);
		MUST(S3(SYS_gettimeofday, places[i], 0, 0) == -EFAULT || places[i] == 0);
		MUST(S3(SYS_write, 1, places[i], 8) == -EFAULT);
		MUST(S3(SYS_write, 2, places[i], 1UL << 63) < 0);
		MUST(S3(SYS_write, 1, places[i], 0 - places[i]) <= 0);
		S3(SYS_brk, places[i], 0, 0);
		MUST(S0(SYS_getpid) == getpid() && S0(SYS_getppid) == getppid() && ring() == 3);
	}
	/* What a program may not write, the stub may not write for it, in whichever ring it is. */
	for (size_t i = 0; i < COUNT(unwritable); i++) {
		MUST(mprotect(page + PAGE, PAGE, unwritable[i]) == 0);
		MUST(S3(SYS_clock_gettime, 0, page + PAGE, 0) == -EFAULT);
		MUST(S3(SYS_clock_gettime, 0, page + PAGE - 8, 0) == -EFAULT);
		MUST(S3(SYS_gettimeofday, page + PAGE - 8, 0, 0) == -EFAULT);
		if (unwritable[i] == PROT_NONE)
			MUST(S3(SYS_write, 1, page + PAGE, 1) == -EFAULT);
	}
	MUST(mprotect(page, 2 * PAGE, 3) == 0 && page[PAGE] == 0 && page[2 * PAGE - 1] == 0);
}
