/* What a hostile guest tries on hotcell-vmm: one probe at a time, by name.
 *
 *	probes --list       their names
 *	probes NAME [DIR]   runs it; DIR is a directory to write in
 *
 * All of them survive: what is tried ends as it would with Linux, by an error or by the right signal,
 * which is caught here or ends a child. A probe says "survived" at its end, and ends with 0. Whether
 * the VMM itself broke is what the runner looks for. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PAGE         4096UL
#define CHUNK        (2UL << 20)

enum { SHARED = 0x1f000, GATE = 0x10000, STUB = 0x12000, STUB_END = 0x18000, LOW_END = 0x200000 };

static char directory[256] = "/tmp";

static long sys(long n, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define S0(n)          sys(n, 0, 0, 0, 0, 0, 0)
#define S3(n, a, b, c) sys(n, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), 0, 0, 0)
#define S6(n, a, b, c, d, e, f)                                                                    \
	sys(n, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), (uint64_t)(e),          \
		(uint64_t)(f))

/* ---- trying things that are a fault ---- */

static sigjmp_buf back;

static volatile bool is_trying;

static void on_fault(int number)
{
	static const char text[] = "a fault that nothing here made\n";

	if (!is_trying) {
		(void)!write(1, text, sizeof(text) - 1);
		_exit(98);
	}
	siglongjmp(back, number);
}

static void catch_faults(void)
{
	static const int all[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	static char stack[65536];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaltstack(&alternative, NULL);
	for (size_t i = 0; i < COUNT(all); i++)
		sigaction(all[i], &action, NULL);
}

/* The signal that it was, 0 if none. */
#define SIGNAL_OF(statement)                                                                       \
	({                                                                                         \
		volatile int number_ = sigsetjmp(back, 1);                                         \
		if (number_ == 0) {                                                                \
			is_trying = true;                                                          \
			statement;                                                                 \
		}                                                                                  \
		is_trying = false;                                                                 \
		number_;                                                                           \
	})

static _Noreturn void wrong(const char *what, long is)
{
	printf("not so: %s: %ld\n", what, is);
	fflush(stdout);
	_exit(99);
}

#define MUST(holds)                                                                                \
	do {                                                                                       \
		if (!(holds))                                                                      \
			wrong(#holds, errno);                                                      \
	} while (0)
#define MUST_BE(signal, statement)                                                                 \
	do {                                                                                       \
		int got_ = SIGNAL_OF(statement);                                                   \
		if (got_ != (signal))                                                              \
			wrong(#statement, got_);                                                   \
	} while (0)

/* In a child: how it ended, as by wait(). */
static int in_child(void (*function)(uint64_t), uint64_t argument)
{
	pid_t pid = fork();
	int status = -1;

	MUST(pid >= 0);
	if (pid == 0) {
		for (int n = 1; n < 32; n++)
			signal(n, SIG_DFL);
		function(argument);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	return status;
}

static bool ended_by_fault(int status)
{
	return WIFSIGNALED(status) &&
	       (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGILL ||
		       WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGTRAP);
}

/* ---- memory that is not the program's ---- */

static void read_byte(uint64_t address)
{
	(void)*(volatile char *)address;
}

static void write_byte(uint64_t address)
{
	*(volatile char *)address = 1;
}

static void null(void)
{
	MUST_BE(SIGSEGV, read_byte(0));
	MUST_BE(SIGSEGV, write_byte(8));
	MUST_BE(SIGSEGV, read_byte(0xfff));
}

static void null_call(void)
{
	void (*volatile nowhere)(void) = NULL;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	MUST_BE(SIGSEGV, nowhere());
	clock_gettime(CLOCK_MONOTONIC, &now);
	MUST_BE(SIGSEGV, nowhere());
}

static void page_tables(void)
{
	for (uint64_t at = 0x1000; at < GATE; at += PAGE) {
		MUST_BE(SIGSEGV, read_byte(at));
		MUST_BE(SIGSEGV, write_byte(at));
	}
	for (uint64_t at = 0x100000; at < LOW_END; at += PAGE)
		MUST_BE(SIGSEGV, write_byte(at));
	MUST_BE(SIGSEGV, write_byte(0x19000)); /* the editor's list */
	MUST_BE(SIGSEGV, write_byte(0x1e000)); /* the stack of exceptions */
	MUST_BE(SIGSEGV, read_byte(0x11000));
}

static void stub_writes(void)
{
	for (uint64_t at = GATE; at < STUB_END; at += PAGE)
		MUST_BE(SIGSEGV, write_byte(at));
	MUST_BE(SIGSEGV, memset((void *)STUB, 0x90, STUB_END - STUB));
	MUST_BE(SIGSEGV, __asm__ volatile("rep movsb"
					  :
					  : "D"(STUB - 8), "S"(&back), "c"(1L << 40)
					  : "memory"));
}

static void editors_view(void)
{
	static const uint64_t places[] = { 0x7fff80000000, 0x7fff80200000, 0x7fffff000000,
		0x7ffffffff000, 0x7fff00000000 };

	for (size_t i = 0; i < COUNT(places); i++) {
		MUST_BE(SIGSEGV, read_byte(places[i]));
		MUST(mmap((void *)places[i], PAGE, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			     0) == MAP_FAILED);
		MUST(S3(SYS_clock_gettime, 0, places[i], 0) == -EFAULT);
		MUST(S3(SYS_gettimeofday, places[i], 0, 0) == -EFAULT);
		MUST(S3(SYS_uname, places[i], 0, 0) == -EFAULT);
		MUST(S3(SYS_write, 1, places[i], 8) == -EFAULT);
	}
	/* From below into it. */
	MUST(mmap((void *)(0x7fff00000000 - PAGE), 2 * PAGE, 3,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
}

static void far_addresses(void)
{
	static const uint64_t places[] = { 0x800000000000, 0xffff800000000000, 0xffff888000000000,
		0xffffffff81000000, 0xfffffffffe000000, 0xfffffffffffff000, 0x3fffffff000,
		0x1234567800000000 };

	for (size_t i = 0; i < COUNT(places); i++) {
		int got = SIGNAL_OF(read_byte(places[i]));

		MUST(got == SIGSEGV || got == SIGBUS);
		got = SIGNAL_OF(write_byte(places[i]));
		MUST(got == SIGSEGV || got == SIGBUS);
	}
	void (*volatile vsyscall)(void) = (void (*)(void))0xffffffffff600000;
	MUST_BE(SIGSEGV, vsyscall());
}

/* ---- instructions ---- */

#define PROBE_INSTRUCTION(name, signal, ...)                                                       \
	static void name(void)                                                                     \
	{                                                                                          \
		int got = SIGNAL_OF(__asm__ volatile(__VA_ARGS__));                                \
		if (!(signal))                                                                     \
			wrong(#name, got);                                                         \
	}

PROBE_INSTRUCTION(do_cli, got == SIGSEGV, "cli")
PROBE_INSTRUCTION(do_sti, got == SIGSEGV, "sti")
PROBE_INSTRUCTION(do_hlt, got == SIGSEGV, "hlt")
PROBE_INSTRUCTION(do_rdmsr, got == SIGSEGV, "rdmsr" : : "c"(0xc0000080) : "rax", "rdx")
PROBE_INSTRUCTION(do_wrmsr, got == SIGSEGV, "wrmsr" : : "c"(0xc0000082), "a"(0), "d"(0))
PROBE_INSTRUCTION(read_cr0, got == SIGSEGV, "mov %%cr0, %%rax" : : : "rax")
PROBE_INSTRUCTION(read_cr3, got == SIGSEGV, "mov %%cr3, %%rax" : : : "rax")
PROBE_INSTRUCTION(write_cr3, got == SIGSEGV, "mov %%rax, %%cr3" : : "a"(0x200000))
PROBE_INSTRUCTION(write_cr4, got == SIGSEGV, "mov %%rax, %%cr4" : : "a"(0))
PROBE_INSTRUCTION(write_dr7, got == SIGSEGV, "mov %%rax, %%dr7" : : "a"(0x400))
PROBE_INSTRUCTION(do_lidt, got == SIGSEGV, "lidt (%%rax)" : : "a"(&back))
PROBE_INSTRUCTION(do_lgdt, got == SIGSEGV, "lgdt (%%rax)" : : "a"(&back))
PROBE_INSTRUCTION(do_ltr, got == SIGSEGV, "ltr %%ax" : : "a"(0x40))
PROBE_INSTRUCTION(do_lldt, got == SIGSEGV, "lldt %%ax" : : "a"(0x40))
PROBE_INSTRUCTION(do_lmsw, got == SIGSEGV, "lmsw %%ax" : : "a"(1))
PROBE_INSTRUCTION(do_clts, got == SIGSEGV, "clts" : :)
PROBE_INSTRUCTION(do_invlpg, got == SIGSEGV, "invlpg (%%rax)" : : "a"(0x200000))
PROBE_INSTRUCTION(do_wbinvd, got == SIGSEGV, "wbinvd" : :)
PROBE_INSTRUCTION(do_swapgs, got == SIGSEGV || got == SIGILL, "swapgs" : :)
PROBE_INSTRUCTION(do_sysret, got == SIGSEGV || got == SIGILL, "sysretq" : : "c"(0x400000), "d"(2))
PROBE_INSTRUCTION(do_sysexit, got == SIGSEGV || got == SIGILL, "sysexit" : :)
PROBE_INSTRUCTION(do_xsetbv, got == SIGSEGV || got == SIGILL, "xsetbv" : : "c"(0), "a"(1), "d"(0))
PROBE_INSTRUCTION(do_ud2, got == SIGILL, "ud2" : :)
PROBE_INSTRUCTION(do_int3, got == SIGTRAP, "int3" : :)
PROBE_INSTRUCTION(do_vmcall, got == SIGILL || got == SIGSEGV || got == 0, "vmcall"
		  :
		  : "a"(5)
		  : "memory")
PROBE_INSTRUCTION(do_vmmcall, got == SIGILL || got == SIGSEGV || got == 0, "vmmcall"
		  :
		  : "a"(5)
		  : "memory")
PROBE_INSTRUCTION(do_vmrun, got == SIGILL || got == SIGSEGV, "vmrun" : : "a"(0))
PROBE_INSTRUCTION(load_kernel_ds, got == SIGSEGV, "mov %%ax, %%ds" : : "a"(0x10))
PROBE_INSTRUCTION(load_kernel_ss, got == SIGSEGV || got == SIGBUS, "mov %%ax, %%ss" : : "a"(0x18))
PROBE_INSTRUCTION(divide_by_zero, got == SIGFPE, "xor %%ecx, %%ecx; div %%ecx"
		  :
		  :
		  : "rax", "rcx", "rdx")

static void software_interrupts(void)
{
	uint8_t *code = mmap(NULL, PAGE, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*volatile run)(void) = (void (*)(void))code;

	for (unsigned n = 0; n < 256; n++) {
		uint16_t segment;
		int got;

		code[0] = 0xcd;
		code[1] = (uint8_t)n;
		code[2] = 0xc3;
		got = SIGNAL_OF(run());
		/* Some hosts have a use for one of them. It does not lead to ring 0. */
		__asm__ volatile("mov %%cs, %0" : "=r"(segment));
		if (got == 0 && (segment & 3) != 3)
			wrong("int n goes through", n);
	}
}

static void far_return(void)
{
	static const uint16_t selectors[] = { 0x10, 0x18, 0x20, 0x23, 0x40, 0x08, 0x13, 0xfff8 };

	for (size_t i = 0; i < COUNT(selectors); i++) {
		int got = SIGNAL_OF(
			__asm__ volatile("push %0; lea 1f(%%rip), %%rax; push %%rax; lretq; 1: nop"
					 :
					 : "r"((uint64_t)selectors[i])
					 : "rax", "memory"));

		if (got == 0)
			wrong("far return to another segment", selectors[i]);
	}
}

static void interrupt_return(void)
{
	static const uint16_t selectors[] = { 0x10, 0x13, 0x40 };

	for (size_t i = 0; i < COUNT(selectors); i++) {
		int got = SIGNAL_OF(
			__asm__ volatile("mov %%rsp, %%rdx; push $0x18; push %%rdx; pushf; push %0;"
					 "lea 1f(%%rip), %%rax; push %%rax; iretq; 1: nop"
					 :
					 : "r"((uint64_t)selectors[i])
					 : "rax", "rdx", "memory"));

		if (got == 0)
			wrong("iret to another ring", selectors[i]);
	}
}

static void single_step(void)
{
	MUST_BE(SIGTRAP, __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop"
					  :
					  :
					  : "memory"));
	/* Over a system call that the stub answers, and one that it does not. A PVM host forgets it. */
	for (int i = 0; i < 2; i++) {
		int got = SIGNAL_OF(
			__asm__ volatile("pushf; orl $0x100, (%%rsp); popf; syscall; nop; nop"
					 :
					 : "a"(i ? SYS_getpid : SYS_getppid)
					 : "rcx", "r11", "memory"));

		MUST(got == SIGTRAP || got == 0);
	}
}

static volatile int steps;

static void on_step(int number)
{
	(void)number;
	steps++;
}

/* Each step ends in a signal, whose frame has the flag; meanwhile the VMM's clock interrupts many times. */
static void many_steps(void)
{
	enum { TURNS = 1000 };
	struct sigaction counts = { .sa_handler = on_step };
	struct sigaction before;
	int left = TURNS;

	sigaction(SIGTRAP, &counts, &before);
	__asm__ volatile("pushf; orl $0x100, (%%rsp); popf; 1: dec %%ecx; jnz 1b;"
			 "pushf; andl $~0x100, (%%rsp); popf"
			 : "+c"(left)
			 :
			 : "memory", "cc");
	sigaction(SIGTRAP, &before, NULL);
	/* Two for each turn; KVM may forget one when our clock comes in that moment. */
	if (steps < TURNS)
		wrong("steps", steps);
}

static void flags(void)
{
	/* IOPL, NT, VM, VIF, ID: what a program may not have is not had. */
	for (int bit = 0; bit < 22; bit++) {
		uint64_t after = 0;

		if (bit == 8)
			continue;
		SIGNAL_OF(__asm__ volatile("pushf; or %1, (%%rsp); popf; pushf; pop %0"
					   : "=r"(after)
					   : "r"(1UL << bit)
					   : "memory", "cc"));
		__asm__ volatile("cld; pushf; andl $~0x40000, (%%rsp); popf" : : : "memory", "cc");
		MUST((after & 0x3000) == 0);
	}
	/* Through system calls and signals. */
	__asm__ volatile(
		"pushf; orl $0x40000, (%%rsp); popf; syscall; pushf; andl $~0x40000, (%%rsp); popf"
		:
		: "a"(SYS_getppid)
		: "rcx", "r11", "memory");
}

static void sysenter(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("sysenter" : : "a"(20));
}

static void try_sysenter(void)
{
	MUST(in_child(sysenter, 0) != 0);
}

static void wild_syscall(void)
{
	static const uint64_t stacks[] = { 0, 8, 0x1000, 0x10000, 0x12000, 0x19000, 0x1f000,
		0x7fff80000000, 0x800000000000, 0xffff800000000000, 0xfffffffffffffff8, 1 };

	for (size_t i = 0; i < COUNT(stacks); i++) {
		long first = SYS_getpid;
		long second = SYS_getppid;

		__asm__ volatile(
			"mov %%rsp, %%rbx; mov %2, %%rsp; syscall; xchg %%rax, %1; syscall;"
			"mov %%rbx, %%rsp; xchg %%rax, %1"
			: "+a"(first), "+r"(second)
			: "r"(stacks[i])
			: "rbx", "rcx", "r11", "memory");
		MUST(first == getpid() && second == getppid());
	}
}

/* ---- ports ---- */

static void out_byte(uint64_t port)
{
	__asm__ volatile("outb %%al, %%dx" : : "a"(1), "d"((uint16_t)port));
}

static void out_word(uint64_t port)
{
	__asm__ volatile("outw %%ax, %%dx" : : "a"(1), "d"((uint16_t)port));
}

static void out_long(uint64_t port)
{
	/* Through the gate, on some hosts: from nowhere. */
	__asm__ volatile("outl %%eax, %%dx" : : "a"(39), "d"((uint16_t)port), "c"(0));
}

static void in_byte(uint64_t port)
{
	__asm__ volatile("inb %%dx, %%al" : : "d"((uint16_t)port) : "rax");
}

static void in_long(uint64_t port)
{
	__asm__ volatile("inl %%dx, %%eax" : : "d"((uint16_t)port) : "rax");
}

static void outs(uint64_t port)
{
	__asm__ volatile("rep outsl" : : "S"(directory), "c"(16), "d"((uint16_t)port) : "memory");
}

static void outs_byte(uint64_t port)
{
	__asm__ volatile("outsb" : : "S"(directory), "d"((uint16_t)port) : "memory");
}

static void ins(uint64_t port)
{
	__asm__ volatile("rep insl" : : "D"(directory), "c"(16), "d"((uint16_t)port) : "memory");
}

static void (*const port_probes[])(
	uint64_t) = { out_byte, out_word, out_long, in_byte, in_long, outs, outs_byte, ins };

static void ports(void)
{
	for (unsigned port = 0; port < 0x10000; port += port < 0x110 ? 1 : 0xfff)
		for (size_t i = 0; i < COUNT(port_probes); i++)
			/* The gate's may be open to programs: see gate_ports. */
			if (port < 0x0d || port > 0x13)
				MUST_BE(SIGSEGV, port_probes[i](port));
}

static void gate_ports(void)
{
	for (unsigned port = 0x0d; port <= 0x13; port++)
		for (size_t i = 0; i < COUNT(port_probes); i++) {
			int status = in_child(port_probes[i], port);

			if (!ended_by_fault(status))
				wrong("a port is open", (long)(port << 16) | status);
		}
}

/* ---- ring 0 ---- */

#include "rings.h"

/* ---- the gate and the stub, where a program can reach them ---- */

static void jump(uint64_t to)
{
	__asm__ volatile("xor %%eax, %%eax; xor %%ecx, %%ecx; xor %%edi, %%edi; jmp *%%rdx"
			 :
			 : "d"(to)
			 : "memory");
}

static void jump_with_return(uint64_t to)
{
	__asm__ volatile("mov %0, %%rcx; mov $39, %%eax; mov $-1, %%r11; jmp *%0"
			 :
			 : "r"(to)
			 : "memory");
}

static void limited(void (*function)(uint64_t), uint64_t argument)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (int n = 1; n < 32; n++)
			signal(n, SIG_DFL);
		alarm(8); /* what goes round in the stub for ever is ended by the VMM before */
		function(argument);
		_exit(0);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	MUST(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM));
	MUST(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

static void gate_jumps(void)
{
	for (uint64_t to = GATE; to < GATE + 6; to++) {
		limited(jump, to);
		if (to != GATE + 2) /* an endless loop: stub_loop */
			limited(jump_with_return, to);
	}
	limited(jump, 0x11000);
	limited(jump, 0x11400);
	limited(jump, 0x11000 - 1);
}

static void stub_loop(void)
{
	limited(jump_with_return, GATE + 2);
}

static void stub_jumps(void)
{
	for (uint64_t to = STUB; to < STUB + 0x300; to += 7)
		limited(jump, to);
	limited(jump, STUB_END - 1);
	limited(jump_with_return, STUB);
}

/* Where the shared page is the program's own, its words are nonsense from now on. */
static void set_shared(unsigned word, uint64_t value)
{
	SIGNAL_OF(((volatile uint64_t *)SHARED)[word] = value);
}

static void use_everything(void)
{
	struct timespec now;
	struct timeval day;
	char *heap = sbrk(0);
	int word = 0;

	S3(SYS_write, 1, "", 0);
	S3(SYS_clock_gettime, 0, &now, 0);
	S3(SYS_gettimeofday, &day, 0, 0);
	S3(SYS_brk, heap + 65536, 0, 0);
	S3(SYS_brk, heap, 0, 0);
	S0(SYS_getpid);
	S0(SYS_gettid);
	S0(SYS_sched_yield);
	S3(SYS_futex, &word, FUTEX_WAKE, 1);
	S3(SYS_madvise, 0x200000, 4096, 4);
	S0(SYS_getppid);
	S3(SYS_write, 2, "", 0);
}

static void shared_page_in_child(uint64_t unused)
{
	static const uint64_t values[] = { 0, 1, 2, 3, UINT64_MAX, INT64_MAX, 1UL << 63, 0x10000,
		0x10001, 0x7fffffffffff, 0x12000, 0x1000 };

	(void)unused;
	catch_faults();
	close(1);
	close(2);
	for (unsigned word = 0; word < 60; word++)
		for (size_t i = 0; i < COUNT(values); i++) {
			set_shared(word, values[i]);
			SIGNAL_OF(use_everything());
		}
	for (uint64_t at = 0x18000; at < 0x19000; at += 8)
		SIGNAL_OF(*(volatile uint64_t *)at = 0x4141414141414141);
	SIGNAL_OF(use_everything());
	/* And all at once. */
	for (unsigned word = 0; word < 512; word++)
		set_shared(word, (uint64_t)rand() << 32 | (uint64_t)rand());
	SIGNAL_OF(use_everything());
	_exit(0);
}

static void shared_page(void)
{
	int status = in_child(shared_page_in_child, 0);

	/* It may have ended itself, but not by a crash of the VMM, which the runner would see. */
	MUST(WIFEXITED(status) || ended_by_fault(status));
}

static void output_of_a_lie(void)
{
	/* Output of a descriptor that is the VMM's, or longer than there is. */
	for (uint64_t fd = 0; fd < 2000; fd += 1) {
		set_shared(10, fd == 1 || fd == 2 ? 3 : fd);
		set_shared(11, 0x10000);
		S0(SYS_getppid);
	}
	set_shared(10, 1);
	set_shared(11, 0x10001);
	S0(SYS_getppid);
	set_shared(11, UINT64_MAX);
	S0(SYS_getppid);
	set_shared(11, 0);
}

/* ---- signals ---- */

struct frame_change {
	const char *what;
	int reg;
	uint64_t value;
};

static struct frame_change change;
static uint64_t fp_at;
static uint64_t fp_value;

static void change_frame(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)number;
	(void)info;
	if (change.reg >= 0)
		c->uc_mcontext.gregs[change.reg] = (greg_t)change.value;
	else if (change.reg == -1)
		c->uc_mcontext.fpregs = (void *)change.value;
	else if (change.reg == -2)
		memcpy((char *)c->uc_mcontext.fpregs + fp_at, &fp_value, 8);
	else if (change.reg == -3)
		memset(&c->uc_sigmask, 0xff, 8);
	else if (change.reg == -4)
		memset(c->uc_mcontext.fpregs, 0xff, 832);
}

static void return_changed(uint64_t unused)
{
	struct sigaction action = { .sa_sigaction = change_frame, .sa_flags = SA_SIGINFO };

	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	__asm__ volatile("movaps %%xmm0, %%xmm1; fnop" : : : "memory");
	S0(SYS_getppid);
}

static void sigreturn_registers(void)
{
	static const uint64_t values[] = { 0, 1, 0x10000, 0x10002, 0x11000, 0x12000, 0x1f000,
		0x1fffff, 0x7ffffffff000, 0x800000000000, 0xffff800000000000, UINT64_MAX };

	for (size_t i = 0; i < COUNT(values); i++) {
		change = (struct frame_change){ "rip", REG_RIP, values[i] };
		MUST(ended_by_fault(in_child(return_changed, 0)));
		change = (struct frame_change){ "rsp", REG_RSP, values[i] };
		MUST(ended_by_fault(in_child(return_changed, 0)));
	}
	for (int bit = 0; bit < 64; bit++) {
		int status;

		change = (struct frame_change){ "flags", REG_EFL, 1UL << bit };
		status = in_child(return_changed, 0);
		MUST(status == 0 || ended_by_fault(status));
		change = (struct frame_change){ "segments", REG_CSGSFS, 1UL << bit };
		status = in_child(return_changed, 0);
		MUST(status == 0 || ended_by_fault(status));
	}
}

static void sigreturn_floats(void)
{
	static const uint64_t places[] = { 1, 0x1000, 0x10000, 0x1f000, 0x800000000000,
		UINT64_MAX };

	for (size_t i = 0; i < COUNT(places); i++) {
		change = (struct frame_change){ "fpstate", -1, places[i] };
		MUST(ended_by_fault(in_child(return_changed, 0)) || places[i] == 0x1f000);
	}
	change.reg = -2;
	fp_value = UINT64_MAX;
	for (fp_at = 0; fp_at < 832; fp_at += 8) {
		int status;

		/* All of the header, the controls and the start; of the registers only a few. */
		if (fp_at > 64 && fp_at < 456 && fp_at % 64)
			continue;
		status = in_child(return_changed, 0);
		MUST(status == 0 || WIFSIGNALED(status));
	}
	change.reg = -4;
	MUST(WIFSIGNALED(in_child(return_changed, 0)) || true);
	change.reg = -3;
	MUST(in_child(return_changed, 0) == 0);
}

static void bare_sigreturn(uint64_t stack)
{
	__asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall; ud2" : : "r"(stack) : "memory");
}

static void sigreturn_stacks(void)
{
	static const uint64_t stacks[] = { 0, 8, 0x1000, 0x1f000, 0x7fff80000000, 0x800000000000,
		UINT64_MAX, UINT64_MAX - 100 };

	for (size_t i = 0; i < COUNT(stacks); i++)
		MUST(ended_by_fault(in_child(bare_sigreturn, stacks[i])));
}

static void handle_at(uint64_t handler)
{
	uint64_t action[4] = { handler, 0x04000000 | SA_SIGINFO, 0x1234, 0 };

	S6(SYS_rt_sigaction, SIGUSR1, action, 0, 8, 0, 0);
	raise(SIGUSR1);
}

static void wild_handlers(void)
{
	static const uint64_t handlers[] = { 2, 0x1000, 0x10000, 0x10002, 0x11000, 0x12000,
		0x1fffff, 0x7fff80000000, 0x800000000000, 0xffff800000000000, UINT64_MAX };

	for (size_t i = 0; i < COUNT(handlers); i++)
		MUST(ended_by_fault(in_child(handle_at, handlers[i])));
}

static void without_restorer(uint64_t unused)
{
	uint64_t action[4] = { (uint64_t)(uintptr_t)on_fault, 0, 0, 0 };

	(void)unused;
	S6(SYS_rt_sigaction, SIGUSR1, action, 0, 8, 0, 0);
	raise(SIGUSR1);
}

static void leave(int number)
{
	_exit(number);
}

static void on_wild_stack(uint64_t stack)
{
	static const struct itimerval soon = { .it_value.tv_usec = 1000 };
	struct sigaction action = { .sa_handler = leave };

	sigaction(SIGALRM, &action, NULL);
	/* The stack first: on a slow machine the signal would find the good one. */
	__asm__ volatile("mov %0, %%rsp; syscall; 1: jmp 1b"
			 :
			 : "r"(stack), "a"(SYS_setitimer), "D"(ITIMER_REAL), "S"(&soon), "d"(0)
			 : "rcx", "r11", "memory");
}

static void wild_alt_stack(uint64_t base)
{
	struct sigaction action = { .sa_handler = leave, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = (void *)base, .ss_size = 1UL << 62 };

	sigaction(SIGUSR1, &action, NULL);
	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
}

static void signal_stacks(void)
{
	static const uint64_t stacks[] = { 0, 100, 0x1000, 0x12000, 0x1f800, 0x20000,
		0x7fff80001000, 0x800000000000, UINT64_MAX };

	int status;

	MUST(ended_by_fault(in_child(without_restorer, 0)));
	for (size_t i = 0; i < COUNT(stacks); i++) {
		MUST(ended_by_fault(in_child(on_wild_stack, stacks[i])));
		/* One that begins below ours has ours in it: then it is used as it is. */
		status = in_child(wild_alt_stack, stacks[i]);
		MUST(ended_by_fault(status) || WEXITSTATUS(status) == SIGUSR1);
	}
}

static void signal_numbers(void)
{
	uint64_t action[4] = { 1, 0, 0, 0 };

	for (long n = -5; n < 200; n++) {
		S6(SYS_rt_sigaction, n, n == SIGSEGV ? NULL : action, 0, 8, 0, 0);
		if (n < 0 || n > 64)
			MUST(S3(SYS_kill, getpid(), n, 0) == -EINVAL);
	}
	MUST(S3(SYS_kill, getpid(), 1UL << 40, 0) == -EINVAL || true);
	MUST(S3(SYS_tgkill, getpid(), getpid(), UINT64_MAX) == -EINVAL);
	MUST(S3(SYS_tkill, getpid(), 65, 0) == -EINVAL);
}

/* ---- memory calls ---- */

static long map(uint64_t at, uint64_t size, int protection, int more)
{
	return S6(SYS_mmap, at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
}

static const uint64_t wild[] = { 0, 1, 8, 0xfff, 0x1000, 0x10000, 0x1f000, 0x1fffff, 0x200000,
	0x7fefffffffff, 0x7ff000000000, 0x7ffefffff000, 0x7fff00000000, 0x7fff80000000,
	0x7ffffffff000, 0x7fffffffffff, 0x800000000000, 0xffff800000000000, 1UL << 62, 1UL << 63,
	(1UL << 63) - 1, UINT64_MAX - 0x1fffff, UINT64_MAX - 0xfff, UINT64_MAX - 7, UINT64_MAX };

static void map_hints(void)
{
	for (size_t i = 0; i < COUNT(wild); i++)
		for (size_t k = 0; k < COUNT(wild); k++) {
			long at = map(wild[i], wild[k] ? wild[k] : 1, PROT_NONE, MAP_NORESERVE);

			MUST((at > 0 && at < 0x7fff00000000) || (at < 0 && at > -4096));
			if (at > 0)
				MUST(S3(SYS_munmap, at, wild[k], 0) == 0 || true);
		}
	/* Many whose end is before their beginning. */
	for (int i = 0; i < 64; i++) {
		long at = map(UINT64_MAX - 0xfff, 0x2000, 3, 0);

		MUST(at > 0);
		*(volatile char *)(at + 0x1fff) = 1;
	}
}

static void map_fixed(void)
{
	for (size_t i = 0; i < COUNT(wild); i++)
		for (size_t k = 0; k < COUNT(wild); k++) {
			long result;

			/* Not over ourselves: that is map_over_itself. */
			if (wild[i] >= 0x200000 && wild[i] < 0x7fff00000000 &&
				(wild[k] > PAGE || wild[i] == 0x7ff000000000 - 1))
				continue;
			result = map(wild[i], wild[k], 3, MAP_FIXED);
			if (wild[i] < 0x200000 || wild[i] >= 0x7fff00000000)
				MUST(result < 0);
		}
}

static void unmap_wild(void)
{
	for (size_t i = 0; i < COUNT(wild); i++)
		for (size_t k = 0; k < COUNT(wild); k++) {
			uint64_t at = wild[i];

			if (at >= 0x200000 && at < 0x7fff00000000 && wild[k] > PAGE)
				continue;
			if (at <= 0x7ff000000000 && at >= 0x7fe000000000)
				continue;
			S3(SYS_munmap, at, wild[k], 0);
			S3(SYS_mprotect, at, wild[k], 0);
			S3(SYS_madvise, at, wild[k], 4);
			S3(SYS_msync, at, wild[k], 4);
			S3(SYS_mincore, at, wild[k], &change);
		}
}

static void map_over_itself(uint64_t how)
{
	uint64_t code = (uint64_t)(uintptr_t)map_over_itself & ~(PAGE - 1);
	uint64_t stack = (uint64_t)(uintptr_t)&how & ~(PAGE - 1);

	switch (how) {
	case 0:
		map(code, PAGE, 3, MAP_FIXED);
		break;
	case 1:
		map(stack - PAGE, 3 * PAGE, PROT_NONE, MAP_FIXED);
		break;
	case 2:
		S3(SYS_munmap, 0x200000, 0x7fff00000000 - 0x200000, 0);
		break;
	case 3:
		map(0x200000, 0x7fff00000000 - 0x200000, PROT_NONE, MAP_FIXED | MAP_NORESERVE);
		break;
	case 4:
		S3(SYS_mprotect, code, PAGE, PROT_NONE);
		break;
	case 5:
		S3(SYS_mprotect, stack - 16 * PAGE, 17 * PAGE, PROT_READ);
		break;
	case 6:
		S6(SYS_mremap, stack - PAGE, 2 * PAGE, 2 * PAGE, 3, 0x100000000, 0);
		break;
	case 7:
		S3(SYS_munmap, code, PAGE, 0);
		break;
	}
	abort();
}

static void map_over(void)
{
	for (uint64_t how = 0; how < 8; how++) {
		int status = in_child(map_over_itself, how);

		/* Unmapped pages of a mixed block may still be there: then it goes on. */
		MUST(ended_by_fault(status) ||
			(how >= 6 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
	}
}

static void protect_everything(uint64_t unused)
{
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t ranges[64][2];
	int count = 0;

	(void)unused;
	while (maps && count < 64 && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &ranges[count][0], &ranges[count][1]) == 2)
			count++;
	MUST(count > 3);
	for (int i = 0; i < count; i++)
		S3(SYS_mprotect, ranges[i][0], ranges[i][1] - ranges[i][0], PROT_NONE);
}

static void protect(void)
{
	MUST(ended_by_fault(in_child(protect_everything, 0)));
}

static void remap(void)
{
	uint64_t base = 0x100000000;

	MUST(map(base, 16 * PAGE, 3, MAP_FIXED) == (long)base);
	memset((void *)base, 7, 16 * PAGE);
	/* Overlaps in both directions, with themselves, and beyond the ends. */
	for (uint64_t shift = 0; shift < 16; shift++) {
		MUST(S6(SYS_mremap, base, 16 * PAGE, 16 * PAGE, 3, base + shift * PAGE, 0) ==
			-EINVAL);
		MUST(S6(SYS_mremap, base + shift * PAGE, PAGE, 16 * PAGE, 3, base, 0) < 0);
	}
	for (size_t i = 0; i < COUNT(wild); i++)
		for (size_t k = 0; k < COUNT(wild); k++) {
			S6(SYS_mremap, wild[i], wild[k], PAGE, 0, 0, 0);
			S6(SYS_mremap, base, wild[k], wild[i], 0, 0, 0);
			if (wild[i] < 0x200000 || wild[i] >= 0x7fff00000000)
				MUST(S6(SYS_mremap, base, PAGE, PAGE, 3, wild[i], 0) < 0);
			MUST(map(base, 16 * PAGE, 3, MAP_FIXED) == (long)base);
		}
	MUST(S6(SYS_mremap, base, 0, PAGE, 1, 0, 0) < 0);
	/* Large and sparse: quick, and right. */
	MUST(map(base, 1UL << 40, 3, MAP_FIXED | MAP_NORESERVE) == (long)base);
	*(volatile char *)(base + (1UL << 39)) = 9;
	{
		long moved = S6(SYS_mremap, base, 1UL << 40, 1UL << 40, 3, 0x20000000000, 0);

		MUST(moved == 0x20000000000 || moved == -ENOMEM);
		if (moved > 0)
			MUST(*(volatile char *)(moved + (1L << 39)) == 9);
	}
}

static void huge_maps(void)
{
	uint64_t size = 0x7d0000000000 - 0x100000000000;
	long at = map(0, size, PROT_READ, MAP_NORESERVE);

	if (at < 0)
		return;
	MUST(*(volatile char *)(at + (long)size / 2) == 0);
	for (int i = 0; i < 20; i++) {
		MUST(S3(SYS_madvise, at, size, MADV_DONTNEED) == 0);
		MUST(S3(SYS_mprotect, at, size, i % 2 ? PROT_READ : PROT_NONE) == 0);
	}
	MUST(S3(SYS_munmap, at, size, 0) == 0);
}

static void many_areas(void)
{
	uint64_t base = 0x10000000000;
	long last = 0;

	MUST(map(base, 200000 * PAGE, PROT_NONE, MAP_FIXED | MAP_NORESERVE) == (long)base);
	for (uint64_t i = 0; i < 70000 && last == 0; i++)
		last = S3(SYS_mprotect, base + 2 * i * PAGE, PAGE, PROT_READ);
	MUST(last == -ENOMEM);
	/* Full of areas, everything still answers, and nothing is where it should not be. */
	{
		int fd = memfd_create("x", 0);
		char *view;

		MUST(fd >= 0 && ftruncate(fd, PAGE) == 0);
		view = mmap((void *)0x30000000000, PAGE, 3, MAP_SHARED | MAP_FIXED, fd, 0);
		MUST(view == MAP_FAILED);
		MUST(map(0x30000000000, PAGE, 3, MAP_FIXED) < 0);
	}
	MUST(S3(SYS_munmap, base, 200000 * PAGE, 0) == 0);
	MUST(map(base, PAGE, 3, MAP_FIXED) == (long)base);
	*(volatile char *)base = 1;
}

/* Every page in another gigabyte costs two page tables. */
static void many_tables(void)
{
	long done = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		long at = map(0x40000000 * (i + 1), PAGE, 3, MAP_FIXED);

		if (at < 0)
			break;
		MUST_BE(0, *(volatile uint64_t *)at = i);
		done++;
	}
	MUST(done > 100);
	for (long i = 0; i < done; i++)
		MUST(*(volatile uint64_t *)(0x40000000L * (i + 1)) == (uint64_t)i);
	for (long i = 0; i < done; i++) {
		long result = S3(SYS_mprotect, 0x40000000L * (i + 1), PAGE, PROT_NONE);

		/* That takes a table too. */
		MUST(result == 0 || result == -ENOMEM);
		if (result == 0 && i % 97 == 0)
			MUST_BE(SIGSEGV, read_byte(0x40000000UL * ((uint64_t)i + 1)));
	}
	for (long i = 0; i < done; i++)
		MUST(S3(SYS_munmap, 0x40000000L * (i + 1), PAGE, 0) == 0);
}

/* Blocks that come and go, in all mixtures: what one had must never be seen in another. */
static void block_churn(void)
{
	uint64_t base = 0x20000000000;

	srand(1);
	for (int i = 0; i < 20000; i++) {
		uint64_t at =
			base + (uint64_t)(rand() % 64) * CHUNK + (uint64_t)(rand() % 512) * PAGE;
		uint64_t size = (uint64_t)(rand() % (rand() % 8 ? 16 : 1024) + 1) * PAGE;

		switch (rand() % 5) {
		case 0:
		case 1:
			if (map(at, size, 3, MAP_FIXED) == (long)at) {
				uint64_t *first = (uint64_t *)at;
				uint64_t *last = (uint64_t *)(at + size - 8);

				MUST(*first == 0 && *last == 0);
				*first = *last = at;
			}
			break;
		case 2:
			S3(SYS_munmap, at, size, 0);
			break;
		case 3:
			S3(SYS_mprotect, at, size, rand() % 8);
			break;
		case 4:
			S6(SYS_mremap, at, PAGE, (uint64_t)(rand() % 600 + 1) * PAGE, 1, 0, 0);
			break;
		}
	}
}

static void all_memory(void)
{
	long at;

	/* 64 MiB at a time, touched lightly, until there are no more chunks. */
	while ((at = map(0, 64UL << 20, 3, MAP_NORESERVE)) > 0)
		for (uint64_t k = 0; k < 64UL << 20; k += CHUNK)
			if (SIGNAL_OF(*(volatile char *)(at + (long)k) = 1))
				break;
	MUST(at == -ENOMEM);
	MUST(S0(SYS_getppid) > 0);
	MUST(fork() < 0 || true);
}

static void heap_moves(void)
{
	uint64_t heap = (uint64_t)S3(SYS_brk, 0, 0, 0);

	for (size_t i = 0; i < COUNT(wild); i++)
		S3(SYS_brk, wild[i], 0, 0);
	MUST((uint64_t)S3(SYS_brk, heap + 0x100000, 0, 0) == heap + 0x100000);
}

/* The heap's place taken by a file that may not be written. */
static void heap_of_a_file(uint64_t unused)
{
	uint64_t heap;
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start = 0;
	int fd = open("/proc/self/exe", O_RDONLY);

	(void)unused;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[heap]"))
			sscanf(line, "%lx", &start);
	MUST(start && fd >= 0);
	heap = (uint64_t)S3(SYS_brk, 0, 0, 0);
	heap = (uint64_t)S3(SYS_brk, heap + 0x20000, 0, 0);
	MUST(S6(SYS_mmap, start, 0x1000, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == (long)start);
	S3(SYS_brk, start, 0, 0);
	S3(SYS_brk, start + 0x800, 0, 0);
	((volatile uint64_t *)SHARED)[14 - 1] = 1;
	S3(SYS_brk, start, 0, 0);
	_exit(0);
}

static void heap_under_a_file(void)
{
	int status = in_child(heap_of_a_file, 0);

	MUST(status == 0 || ended_by_fault(status));
}

/* A file that is shorter than its mapping, or becomes so. */
static void short_files(void)
{
	int fd = memfd_create("short", 0);
	char *private;
	char *shared;
	struct iovec vector;
	int pair[2];
	int zero = open("/dev/zero", O_RDONLY);
	int event = eventfd(0, EFD_NONBLOCK);

	MUST(ftruncate(fd, PAGE) == 0 && pipe(pair) == 0 && zero >= 0);
	private = mmap(NULL, 8 * PAGE, 3, MAP_PRIVATE, fd, 0);
	shared = mmap(NULL, 8 * PAGE, 3, MAP_SHARED, fd, 0);
	MUST(private != MAP_FAILED && shared != MAP_FAILED);
	for (int round = 0; round < 2; round++) {
		char *const ends[] = { private + (round ? 0 : PAGE), shared + (round ? 0 : PAGE) };

		for (size_t i = 0; i < COUNT(ends); i++) {
			char *at = ends[i];

			MUST_BE(SIGBUS, *(volatile char *)at);
			MUST(S3(SYS_open, at, 0, 0) == -EFAULT);
			MUST(S3(SYS_uname, at, 0, 0) == -EFAULT);
			MUST(S3(SYS_nanosleep, at, 0, 0) == -EFAULT);
			MUST(S6(SYS_futex, at, FUTEX_WAIT, 0, 0, 0, 0) == -EFAULT);
			MUST(S6(SYS_futex, at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0) ==
				-EFAULT);
			MUST(S6(SYS_futex, &fp_at, FUTEX_WAKE_OP, 1, 1, at, 0) == -EFAULT);
			MUST(S6(SYS_futex, at, FUTEX_CMP_REQUEUE, 1, 1, &fp_at, 0) == -EFAULT);
			MUST(S3(SYS_poll, at, 1, 0) == -EFAULT);
			MUST(S3(SYS_write, pair[1], at, 8) == -EFAULT);
			MUST(S3(SYS_write, event, at, 8) == -EFAULT);
			MUST(S3(SYS_read, zero, at, 8) == -EFAULT);
			MUST(S3(SYS_execve, at, 0, 0) == -EFAULT);
			MUST(S3(SYS_getcwd, at, 4096, 0) == -EFAULT);
			MUST(S3(SYS_rt_sigaction, SIGUSR1, at, 0) < 0);
			vector = (struct iovec){ at, 8 };
			MUST(S3(SYS_writev, pair[1], &vector, 1) == -EFAULT);
			MUST(S3(SYS_writev, pair[1], at, 1) == -EFAULT);
			S6(SYS_mremap, at, PAGE, 4 * PAGE, 1, 0, 0);
		}
		if (round == 0)
			MUST(ftruncate(fd, 0) == 0);
		else
			break;
		private = mmap(NULL, 8 * PAGE, 3, MAP_PRIVATE, fd, 0);
		shared = mmap(NULL, 8 * PAGE, 3, MAP_SHARED, fd, 0);
	}
}

static void read_only_files(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	int zero = open("/dev/zero", O_RDONLY);

	MUST(view != MAP_FAILED);
	MUST_BE(SIGSEGV, *(volatile char *)view = 1);
	MUST(mprotect(view, PAGE, 3) < 0);
	MUST(S3(SYS_read, zero, view, 8) == -EFAULT);
	MUST(S3(SYS_uname, view, 0, 0) == -EFAULT);
	MUST(S6(SYS_futex, &fp_at, FUTEX_WAKE_OP, 1, 1, view, 0) == -EFAULT);
	MUST(mmap(NULL, PAGE, 3, MAP_SHARED, fd, 0) == MAP_FAILED);
}

/* ---- threads ---- */

static void clone_wild(void)
{
	const uint64_t thread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;

	for (size_t i = 0; i < COUNT(wild); i++) {
		if (wild[i] >= 0x200000 && wild[i] < 0x7fff00000000)
			continue;
		/* A thread pointer that no processor takes; addresses for its number that are nowhere. */
		MUST(S6(SYS_clone, thread | CLONE_SETTLS, &fp_at, 0, 0,
			     wild[i] < 0x200000 ? UINT64_MAX : wild[i], 0) < 0);
		MUST(S6(SYS_clone, thread | CLONE_PARENT_SETTID, &fp_at, wild[i], 0, 0, 0) < 0);
		MUST(S6(SYS_clone, thread | CLONE_CHILD_SETTID, &fp_at, 0, wild[i], 0, 0) < 0);
		S3(SYS_arch_prctl, 0x1002 + 2, wild[i], 0);
		S3(SYS_arch_prctl, 0x1001, wild[i] < 0x200000 ? UINT64_MAX : wild[i], 0);
		S3(SYS_set_robust_list, wild[i], 24, 0);
	}
	for (int bit = 0; bit < 64; bit++)
		if ((1UL << bit) & (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
					   CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP))
			MUST(S6(SYS_clone, 1UL << bit, 0, 0, 0, 0, 0) < 0);
	MUST(S3(SYS_clone3, wild, 88, 0) == -ENOSYS);
}

static void wild_thread(uint64_t stack)
{
	const uint64_t flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_CHILD_CLEARTID;

	/* The new thread pops an address from a stack that is none. */
	__asm__ volatile("syscall; test %%rax, %%rax; jnz 1f; push %%rax; 1:"
			 :
			 : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(0)
			 : "rcx", "r11", "memory");
	for (int i = 0; i < 100; i++)
		S0(SYS_sched_yield);
}

static void thread_stacks(void)
{
	static const uint64_t stacks[] = { 8, 0x1000, 0x12000, 0x1f000, 0x7fff80000000,
		0x800000000000, 0xffff800000000000, UINT64_MAX };

	for (size_t i = 0; i < COUNT(stacks); i++)
		MUST(ended_by_fault(in_child(wild_thread, stacks[i])));
}

static char stacks[300][4096];

static void many_threads_in_child(uint64_t unused)
{
	const uint64_t flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
	static volatile uint32_t gate;
	long made = 0;

	(void)unused;
	for (int i = 0; i < 300; i++) {
		long result;

		/* Each waits for what never comes. */
		__asm__ volatile(
			"syscall; test %%rax, %%rax; jnz 2f;"
			"1: mov $202, %%eax; mov %3, %%rdi; xor %%esi, %%esi; xor %%edx, %%edx;"
			"xor %%r10d, %%r10d; syscall; jmp 1b; 2:"
			: "=a"(result)
			: "a"(SYS_clone), "D"(flags), "r"(&gate), "S"(stacks[i] + 4096)
			: "rcx", "r11", "rdx", "r10", "memory");
		if (result < 0)
			break;
		made++;
	}
	if (made < 100)
		_exit(1);
	_exit(0);
}

static void many_threads(void)
{
	MUST(in_child(many_threads_in_child, 0) == 0);
}

static void futex_wild(void)
{
	for (size_t i = 0; i < COUNT(wild); i++)
		for (uint64_t op = 0; op < 16; op++) {
			if (wild[i] >= 0x200000 && wild[i] < 0x7fff00000000)
				continue;
			MUST(S6(SYS_futex, wild[i], op, 0, 0, wild[i], 0) <= 0);
			MUST(S6(SYS_futex, &fp_at, op | 128, 1, wild[i], wild[COUNT(wild) - 1 - i],
				     0x7fffffff) <= 0);
		}
}

/* A child by vfork has its parent's memory: what it leaves behind must not be used after free. */
static void vfork_polls(void)
{
	static struct pollfd many[200];
	int pair[2];

	MUST(pipe(pair) == 0);
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct pollfd){ pair[0], POLLIN, 0 };
	for (int round = 0; round < 20; round++) {
		pid_t pid;

		S3(SYS_poll, many, 1 + round % 3, 1);
		pid = vfork();
		if (pid == 0) {
			S3(SYS_poll, many, COUNT(many), 1);
			S6(SYS_mmap, 0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			_exit(0);
		}
		MUST(pid > 0 && waitpid(pid, NULL, 0) == pid);
		S3(SYS_poll, many, 60, 1);
		S3(SYS_poll, many, COUNT(many), 1);
	}
}

static void vfork_threads(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		const uint64_t flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;

		_exit(S6(SYS_clone, flags, stacks[1], 0, 0, 0, 0) < 0 ? 0 : 1);
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Killed at all moments, in the middle of the VMM's work for it. */
static void vfork_killed(void)
{
	for (int i = 0; i < 40; i++) {
		int status;
		pid_t parent = fork();

		if (parent == 0) {
			pid_t killer;
			pid_t self = getpid();
			pid_t child;

			(void)self;
			killer = 0;
			child = vfork();
			if (child == 0) {
				uint64_t base = 0x20000000000;

				if (!killer) {
					pid_t me = getpid();

					killer = fork();
					if (killer == 0) {
						usleep((useconds_t)(i * 137 % 5000));
						kill(me, SIGKILL);
						_exit(0);
					}
				}
				for (uint64_t k = 0;; k++) {
					map(base + k % 300 * CHUNK, PAGE, 3, MAP_FIXED);
					S3(SYS_munmap, base + k * 7 % 300 * CHUNK, CHUNK, 0);
				}
			}
			/* It is either dead itself by now, or all its books are right. */
			for (uint64_t k = 0; k < 300; k++) {
				uint64_t at = 0x20000000000 + k * CHUNK;

				if (map(at, CHUNK, 3, MAP_FIXED) != (long)at)
					_exit(2);
				*(volatile uint64_t *)at = k;
			}
			for (uint64_t k = 0; k < 300; k++)
				if (*(volatile uint64_t *)(0x20000000000 + k * CHUNK) != k)
					_exit(3);
			_exit(0);
		}
		MUST(waitpid(parent, &status, 0) == parent);
		MUST(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	}
}

static void process_limit(void)
{
	int made = 0;

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			break;
		made++;
	}
	MUST(made > 0);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
}

/* ---- descriptors ---- */

/* Calls that take a descriptor, and where. */
static const struct {
	uint16_t number;
	uint8_t argument;
} fd_calls[] = {
	{ SYS_read, 0 },
	{ SYS_write, 0 },
	{ SYS_close, 0 },
	{ SYS_fstat, 0 },
	{ SYS_lseek, 0 },
	{ SYS_ioctl, 0 },
	{ SYS_pread64, 0 },
	{ SYS_pwrite64, 0 },
	{ SYS_readv, 0 },
	{ SYS_writev, 0 },
	{ SYS_dup, 0 },
	{ SYS_dup2, 0 },
	{ SYS_dup2, 1 },
	{ SYS_dup3, 0 },
	{ SYS_dup3, 1 },
	{ SYS_sendfile, 0 },
	{ SYS_sendfile, 1 },
	{ SYS_connect, 0 },
	{ SYS_accept, 0 },
	{ SYS_sendto, 0 },
	{ SYS_recvfrom, 0 },
	{ SYS_sendmsg, 0 },
	{ SYS_recvmsg, 0 },
	{ SYS_shutdown, 0 },
	{ SYS_bind, 0 },
	{ SYS_listen, 0 },
	{ SYS_getsockname, 0 },
	{ SYS_getpeername, 0 },
	{ SYS_setsockopt, 0 },
	{ SYS_getsockopt, 0 },
	{ SYS_fcntl, 0 },
	{ SYS_flock, 0 },
	{ SYS_fsync, 0 },
	{ SYS_fdatasync, 0 },
	{ SYS_ftruncate, 0 },
	{ SYS_getdents, 0 },
	{ SYS_fchdir, 0 },
	{ SYS_fchmod, 0 },
	{ SYS_fchown, 0 },
	{ SYS_fstatfs, 0 },
	{ SYS_fsetxattr, 0 },
	{ SYS_fgetxattr, 0 },
	{ SYS_flistxattr, 0 },
	{ SYS_fremovexattr, 0 },
	{ SYS_getdents64, 0 },
	{ SYS_fadvise64, 0 },
	{ SYS_epoll_wait, 0 },
	{ SYS_epoll_ctl, 0 },
	{ SYS_epoll_ctl, 2 },
	{ SYS_inotify_add_watch, 0 },
	{ SYS_inotify_rm_watch, 0 },
	{ SYS_openat, 0 },
	{ SYS_mkdirat, 0 },
	{ SYS_mknodat, 0 },
	{ SYS_fchownat, 0 },
	{ SYS_futimesat, 0 },
	{ SYS_newfstatat, 0 },
	{ SYS_unlinkat, 0 },
	{ SYS_renameat, 0 },
	{ SYS_renameat, 2 },
	{ SYS_linkat, 0 },
	{ SYS_linkat, 2 },
	{ SYS_symlinkat, 1 },
	{ SYS_readlinkat, 0 },
	{ SYS_fchmodat, 0 },
	{ SYS_faccessat, 0 },
	{ SYS_splice, 0 },
	{ SYS_sync_file_range, 0 },
	{ SYS_utimensat, 0 },
	{ SYS_epoll_pwait, 0 },
	{ SYS_fallocate, 0 },
	{ SYS_timerfd_settime, 0 },
	{ SYS_timerfd_gettime, 0 },
	{ SYS_accept4, 0 },
	{ SYS_preadv, 0 },
	{ SYS_pwritev, 0 },
	{ SYS_recvmmsg, 0 },
	{ SYS_sendmmsg, 0 },
	{ SYS_renameat2, 0 },
	{ SYS_renameat2, 2 },
	{ SYS_copy_file_range, 0 },
	{ SYS_copy_file_range, 2 },
	{ SYS_preadv2, 0 },
	{ SYS_pwritev2, 0 },
	{ SYS_statx, 0 },
	{ SYS_openat2, 0 },
	{ SYS_faccessat2, 0 },
	{ SYS_epoll_pwait2, 0 },
	{ SYS_mmap, 4 },
	{ SYS_execveat, 0 },
};

/* The VMM's own descriptors lie from 1000 on. None may be reached by any call. */
static void foreign_descriptors(void)
{
	static const uint64_t more[] = { 0x100000000 + 1000, 0xffffffff000003e8, UINT64_MAX,
		INT32_MAX, 1UL << 31, 65536 };
	static char scratch[8192];
	int epoll = epoll_create1(0);
	int file = memfd_create("x", 0);

	strcpy(scratch, "x");
	for (uint64_t fd = 1000; fd < 1100; fd++)
		for (size_t i = 0; i < COUNT(fd_calls); i++) {
			uint64_t a[6] = { (uint64_t)file, (uint64_t)(uintptr_t)scratch, 1, 0, 0,
				0 };
			long result;

			if (fd >= 1080)
				a[fd_calls[i].argument] = more[(fd - 1080) % COUNT(more)];
			else
				a[fd_calls[i].argument] = fd;
			if (fd_calls[i].number == SYS_mmap)
				a[0] = 0, a[1] = PAGE, a[2] = 1, a[3] = MAP_SHARED;
			if (fd_calls[i].number == SYS_epoll_ctl && fd_calls[i].argument == 2)
				a[0] = (uint64_t)epoll, a[1] = EPOLL_CTL_ADD,
				a[3] = (uint64_t)(uintptr_t)scratch;
			if (fd_calls[i].number == SYS_renameat ||
				fd_calls[i].number == SYS_renameat2 ||
				fd_calls[i].number == SYS_linkat)
				a[3] = (uint64_t)(uintptr_t)scratch;
			result = sys(fd_calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
			if (result >= 0)
				wrong("a descriptor of the VMM's answers",
					(long)fd_calls[i].number);
		}
	{
		struct pollfd one = { 1000, POLLIN, 0 };
		uint64_t set[16] = { 0 };
		struct timeval at_once = { 0, 0 };

		MUST(poll(&one, 1, 0) == 1 && one.revents == POLLNVAL);
		set[15] = UINT64_MAX;
		S6(SYS_select, 1024, set, 0, 0, &at_once, 0);
		S6(SYS_select, INT32_MAX, 0, 0, 0, &at_once, 0);
		MUST(S3(SYS_close_range, 1000, UINT32_MAX, 0) == 0);
		MUST(fcntl(file, F_DUPFD, 1000) < 0);
		MUST(S3(SYS_waitid, 3, 1000, 0) < 0 && S3(SYS_waitid, 0x100000003, 1000, 0) < 0);
	}
	/* All that closing left the machine whole: a child needs /dev/kvm and the VMM itself. */
	MUST(system("exit 5") == 5 << 8);
}

static void sent_descriptors(void)
{
	int pair[2];
	char byte = 0;
	struct iovec vector = { &byte, 1 };

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	for (int fd = 990; fd < 1070; fd++) {
		union {
			struct cmsghdr head;
			char room[64];
		} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
		struct msghdr message = { .msg_iov = &vector,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = CMSG_SPACE(sizeof(int)) };

		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		MUST(sendmsg(pair[0], &message, 0) < 0);
	}
	/* Lengths that are not. */
	for (size_t i = 0; i < COUNT(wild); i++) {
		union {
			struct cmsghdr head;
			char room[64];
		} control = { .head = { wild[i], SOL_SOCKET, SCM_RIGHTS } };
		struct msghdr message = { .msg_iov = &vector,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = 40 };

		sendmsg(pair[0], &message, MSG_DONTWAIT);
		message.msg_controllen = wild[i];
		sendmsg(pair[0], &message, MSG_DONTWAIT);
		message.msg_controllen = 40;
		message.msg_namelen = (socklen_t)wild[i];
		message.msg_name = &control;
		sendmsg(pair[0], &message, MSG_DONTWAIT);
		message.msg_iovlen = wild[i];
		sendmsg(pair[0], &message, MSG_DONTWAIT);
		recvmsg(pair[1], &message, MSG_DONTWAIT);
		S6(SYS_sendto, pair[0], &byte, 1, MSG_DONTWAIT, wild[i], wild[i]);
		S6(SYS_recvfrom, pair[1], &byte, 1, MSG_DONTWAIT, wild[i], wild[i]);
		S6(SYS_sendmmsg, pair[0], wild[i], wild[i], MSG_DONTWAIT, 0, 0);
		S6(SYS_recvmmsg, pair[1], wild[i], wild[i], MSG_DONTWAIT, 0, 0);
		S6(SYS_setsockopt, pair[0], SOL_SOCKET, SO_SNDBUF, wild[i], wild[i], 0);
		S6(SYS_getsockopt, pair[0], SOL_SOCKET, SO_SNDBUF, wild[i], wild[i], 0);
	}
}

static void buffers(void)
{
	int pair[2];
	int zero = open("/dev/zero", O_RDWR);
	int random = open("/dev/urandom", O_RDONLY);
	int file = memfd_create("x", 0);
	static char data[65536];

	MUST(pipe2(pair, O_NONBLOCK) == 0 && zero >= 0 && random >= 0);
	for (size_t i = 0; i < COUNT(wild); i++)
		for (size_t k = 0; k < COUNT(wild); k++) {
			struct iovec vectors[3] = { { data, wild[k] }, { (void *)wild[i], wild[k] },
				{ data, wild[i] } };

			/* A buffer that begins in our memory would be written over. */
			if (wild[i] >= 0x200000 && wild[i] < 0x7fff00000000)
				continue;
			S3(SYS_write, pair[1], wild[i], wild[k]);
			S3(SYS_read, pair[0], wild[i], wild[k]);
			S3(SYS_read, zero, wild[i], wild[k]);
			S3(SYS_read, random, wild[i], wild[k]);
			S3(SYS_getrandom, wild[i], wild[k], 0);
			S3(SYS_write, zero, wild[i], wild[k]);
			S3(SYS_write, file, wild[i], wild[k]);
			S6(SYS_pread64, file, wild[i], wild[k], wild[i], 0, 0);
			S3(SYS_writev, zero, vectors, 3);
			S3(SYS_writev, pair[1], &vectors[1], 2);
			S3(SYS_writev, zero, wild[i], wild[k]);
			S3(SYS_readv, zero, wild[i], wild[k]);
			S3(SYS_readv, file, vectors, wild[k]);
			S3(SYS_getdents64, file, wild[i], wild[k]);
			S3(SYS_readlink, "/proc/self/exe", wild[i], wild[k]);
			S3(SYS_getcwd, wild[i], wild[k], 0);
			S6(SYS_getxattr, "/", "user.x", wild[i], wild[k], 0, 0);
			S6(SYS_setxattr, "/", "user.x", wild[i], wild[k], 0, 0);
			S3(SYS_listxattr, "/", wild[i], wild[k]);
			S3(SYS_poll, wild[i], wild[k], 0);
			S6(SYS_epoll_wait, file, wild[i], wild[k], 0, 0, 0);
			S6(SYS_ppoll, wild[i], wild[k], data, wild[i], wild[k], 0);
			S6(SYS_pselect6, wild[k], wild[i], 0, 0, data, wild[i]);
			S6(SYS_select, wild[k], wild[i], wild[i], wild[i], data, 0);
			S3(SYS_sched_getaffinity, 0, wild[k], wild[i]);
			S6(SYS_openat2, -100, "/", wild[i], wild[k], 0, 0);
			S3(SYS_memfd_create, wild[i], wild[k], 0);
			S6(SYS_statx, -100, wild[i], 0, 0, wild[k], 0);
			S3(SYS_getgroups, wild[k], wild[i], 0);
			S6(SYS_sendfile, pair[1], file, wild[i], wild[k], 0, 0);
			S6(SYS_copy_file_range, file, wild[i], file, wild[i], wild[k], 0);
			S6(SYS_rt_sigtimedwait, wild[i], wild[i], data, 8, 0, 0);
			S3(SYS_rt_sigpending, wild[i], 8, 0);
			S3(SYS_sigaltstack, wild[i], wild[i], 0);
			for (int fd = file + 1; fd < file + 8; fd++)
				close(fd);
		}
}

/* A page of ours and then nothing. */
static void half_buffers(void)
{
	char *page = mmap(NULL, CHUNK * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int zero = open("/dev/zero", O_RDWR);

	page = (char *)(((uint64_t)page + CHUNK - 1) & ~(CHUNK - 1)) + CHUNK - PAGE;
	MUST(mprotect(page, PAGE, 3) == 0);
	for (uint64_t left = 0; left < 300; left++) {
		char *at = page + PAGE - left;

		MUST(S3(SYS_uname, at, 0, 0) == -EFAULT);
		MUST(S3(SYS_read, zero, at, 10000) == (left ? (long)left : -EFAULT));
		memset(at, 'x', left);
		MUST(S3(SYS_open, at, 0, 0) == -EFAULT);
		MUST(S3(SYS_execve, at, 0, 0) == -EFAULT);
		MUST(S3(SYS_execve, "/bin/true", left % 8 ? at : page + PAGE, 0) == -EFAULT);
		MUST(S3(SYS_writev, zero, at, 20) == -EFAULT);
		MUST(S3(SYS_poll, at, 100, 0) == -EFAULT);
	}
}

/* Another process changes what the VMM is reading. */
static void changing_paths(void)
{
	char *shared = mmap(NULL, PAGE, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	memset(shared, 'a', PAGE);
	pid = fork();
	if (pid == 0)
		for (;;) {
			shared[200] = 0;
			__asm__ volatile("pause" : : : "memory");
			shared[200] = '/';
		}
	MUST(pid > 0);
	for (int i = 0; i < 20000; i++) {
		long result = S3(SYS_access, shared, 0, 0);

		MUST(result == -ENOENT || result == -ENAMETOOLONG);
		shared[PAGE - 1] = (char)(i & 1);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void polls(void)
{
	static struct pollfd many[2000];

	MUST(S3(SYS_poll, many, UINT32_MAX, 0) == -EINVAL);
	MUST(S3(SYS_poll, many, 1001, 0) == -EINVAL);
	MUST(S3(SYS_poll, many, 1UL << 32, 0) == 0);
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct pollfd){ (int)(i * 1234567), -1, -1 };
	S3(SYS_poll, many, 200, 0);
	{
		int epoll = epoll_create1(0);
		struct epoll_event event;
		int deep[100];

		MUST(epoll_wait(epoll, &event, INT32_MAX, 0) <= 0);
		MUST(epoll_wait(epoll, &event, -1, 0) < 0);
		for (size_t i = 0; i < COUNT(deep); i++) {
			deep[i] = epoll_create1(0);
			event = (struct epoll_event){ .events = ~0U };
			epoll_ctl(i ? deep[i - 1] : epoll, EPOLL_CTL_ADD, deep[i], &event);
			epoll_ctl(deep[i], EPOLL_CTL_ADD, epoll, &event);
		}
		epoll_wait(epoll, &event, 1, 0);
	}
}

static void execve_wild(void)
{
	static uint64_t vector[40000];
	static char *const none[] = { NULL };
	int status;
	pid_t pid;

	for (size_t i = 0; i < COUNT(wild); i++) {
		if (wild[i] >= 0x200000 && wild[i] < 0x7fff00000000)
			continue;
		MUST(S3(SYS_execve, wild[i], 0, 0) < 0);
		if (wild[i]) {
			MUST(S3(SYS_execve, "/bin/true", wild[i], 0) == -EFAULT);
			MUST(S3(SYS_execve, "/bin/true", none, wild[i]) == -EFAULT);
		}
		vector[0] = wild[i] ? wild[i] : 1;
		MUST(S3(SYS_execve, "/bin/true", vector, 0) == -EFAULT);
	}
	for (size_t i = 0; i + 1 < COUNT(vector); i++)
		vector[i] = (uint64_t)(uintptr_t) "x";
	MUST(S3(SYS_execve, "/bin/true", vector, 0) == -E2BIG);
	MUST(S3(SYS_execve, "/bin/true", vector, vector) == -E2BIG);
	MUST(S3(SYS_execve, "/", none, none) < 0 && S3(SYS_execve, "/dev/null", none, none) < 0);
	MUST(S3(SYS_execve, "", none, none) < 0 && S3(SYS_execve, "--trace", none, none) < 0);
	/* Without a name; with names that look like the VMM's own options. */
	pid = fork();
	if (pid == 0) {
		S3(SYS_execve, "/bin/true", none, none);
		_exit(9);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	pid = fork();
	if (pid == 0) {
		char *const words[] = { "--trace", "--host=pvm,0", "--memory=1", NULL };

		execve("/bin/true", words, words);
		_exit(9);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Programs that are not. */
static void write_program(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0700);

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

struct elf {
	uint8_t ident[16];
	uint16_t type, machine;
	uint32_t version;
	uint64_t entry, headers, sections;
	uint32_t flags;
	uint16_t size, header_size, headers_count, section_size, sections_count, names;
	struct {
		uint32_t type, flags;
		uint64_t offset, address, physical, in_file, in_memory, align;
	} program[2];
};

static void broken_programs(void)
{
	char path[300];
	const struct elf good = {
		.ident = { 0x7f, 'E', 'L', 'F', 2, 1, 1 },
		.type = 2,
		.machine = 62,
		.version = 1,
		.entry = 0x400000,
		.headers = 64,
		.size = 64,
		.header_size = 56,
		.headers_count = 1,
		.program = { { 1, 7, 0, 0x400000, 0, 0x1000, 0x1000, 0x1000 } },
	};

	snprintf(path, sizeof(path), "%s/broken", directory);
	for (int i = 0; i < 400; i++) {
		struct elf e = good;
		uint8_t bytes[sizeof(e)];
		int status;
		pid_t pid;

		srand((unsigned)i);
		e.type = i % 2 ? 2 : 3;
		if (i < 200) {
			uint64_t *fields[] = { &e.entry, &e.program[0].offset,
				&e.program[0].address, &e.program[0].in_file,
				&e.program[0].in_memory, &e.headers };

			for (int k = 0; k < 1 + i % 3; k++)
				*fields[rand() % COUNT(fields)] =
					wild[(unsigned)rand() % COUNT(wild)];
			e.headers_count = (uint16_t)(1 + i % 2);
			e.program[1] = e.program[0];
			e.program[1].type = i % 3 ? 1 : 3;
			if (i % 5 == 0)
				e.headers_count = (uint16_t)rand();
			if (i % 4 == 0) /* agree modulo the page, as they must */
				e.program[0].offset = e.program[0].address & 0xfff;
		}
		memcpy(bytes, &e, sizeof(e));
		for (int k = 0; i >= 200 && k < 4; k++)
			bytes[16 + (unsigned)rand() % (sizeof(e) - 16)] = (uint8_t)rand();
		write_program(path, bytes, sizeof(bytes));
		pid = vfork();
		if (pid == 0) {
			char *const words[] = { "broken", NULL };

			execve(path, words, NULL);
			_exit(7);
		}
		MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
		MUST(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
	}
	for (int i = 0; i < 30; i++) {
		static const char *const scripts[] = { "#!", "#! ", "#!\n", "#!/\n",
			"#!/dev/null\n", "#!broken\n", "#!/bin/sh", "#!/bin/true x y z \t\n",
			"#!\t/bin/true\n", "",
			"\x7f"
			"ELF",
			"#!/bin/true \n", "#!/bin/true\0x\n" };
		int status;
		pid_t pid;

		write_program(path, scripts[(unsigned)i % COUNT(scripts)],
			strlen(scripts[(unsigned)i % COUNT(scripts)]));
		pid = vfork();
		if (pid == 0) {
			char *const words[] = { "broken", "x", NULL };
			char *const nothing[] = { NULL };

			execve(path, i % 2 ? words : nothing, NULL);
			_exit(7);
		}
		MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	}
	/* A script that is its own interpreter. */
	{
		char text[400];

		snprintf(text, sizeof(text), "#!%s\n", path);
		write_program(path, text, strlen(text));
		MUST(S3(SYS_execve, path, 0, 0) == -ELOOP);
	}
	unlink(path);
}

static void on_alarm(int number)
{
	(void)number; /* ends what waits */
}

static void all_calls(void)
{
	const struct itimerval every = { { 0, 10000 }, { 0, 10000 } };

	/* Everything at once: every number, with wild arguments. */
	static const uint16_t not_these[] = { SYS_exit, SYS_exit_group, SYS_pause,
		SYS_rt_sigsuspend, SYS_rt_sigreturn, SYS_fork, SYS_vfork, SYS_clone, SYS_munmap,
		SYS_mremap, SYS_mprotect, SYS_mmap, SYS_brk, SYS_madvise, SYS_kill, SYS_tkill,
		SYS_tgkill, SYS_close, SYS_close_range, SYS_alarm, SYS_setitimer, SYS_execve,
		SYS_execveat, SYS_arch_prctl, SYS_dup2, SYS_dup3, SYS_setrlimit, SYS_prlimit64,
		SYS_rt_sigaction, SYS_futex, SYS_wait4, SYS_waitid, SYS_rt_sigtimedwait, SYS_poll,
		SYS_ppoll, SYS_select, SYS_pselect6, SYS_nanosleep, SYS_clock_nanosleep, SYS_read,
		SYS_readv, SYS_setsid, SYS_rt_sigprocmask, SYS_fcntl, SYS_ftruncate,
		SYS_fallocate };

	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	/* What is open is changed for real: it must be nothing of the machine's. */
	MUST(S3(SYS_close_range, 3, 999, 0) == 0);
	for (int fd = 0; fd < 3; fd++) {
		struct stat st;

		MUST(fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)));
	}
	setitimer(ITIMER_REAL, &every, NULL);
	for (int round = 0; round < 100; round++)
		for (uint64_t n = 0; n < 470; n++) {
			uint64_t a[6];
			bool left_out = false;

			for (size_t i = 0; i < COUNT(not_these); i++)
				left_out = left_out || not_these[i] == n;
			if (left_out)
				continue;
			for (int i = 0; i < 6; i++) {
				uint64_t value = wild[(unsigned)rand() % COUNT(wild)];

				/* Nothing that is our own memory. */
				if (value >= 0x200000 && value < 0x7fff00000000)
					value = (uint64_t)rand() % 64;
				a[i] = rand() % 3 ? value : (uint64_t)rand() % 8 + 3;
			}
			sys((long)n, a[0], a[1], a[2], a[3], a[4], a[5]);
		}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	for (size_t i = 0; i < COUNT(wild); i++)
		if (wild[i] > 512)
			MUST(sys((long)wild[i], 0, 0, 0, 0, 0, 0) == -ENOSYS ||
				wild[i] == UINT64_MAX - 1);
}

static void flood_of_signals(void)
{
	pid_t target = fork();
	pid_t sender;

	if (target == 0) {
		struct sigaction ignore = { .sa_handler = SIG_IGN };

		for (int n = 1; n < 65; n++)
			sigaction(n, &ignore, NULL);
		for (int i = 0; i < 20000; i++)
			use_everything();
		_exit(0);
	}
	sender = fork();
	if (sender == 0)
		for (;;)
			for (int n = 1; n < 65; n++)
				if (n != SIGKILL && n != SIGSTOP && n != 32 && n != 33)
					kill(target, n);
	int status;
	siginfo_t info;
	/* Its number stays its own until the sender is gone. */
	MUST(waitid(P_PID, (id_t)target, &info, WEXITED | WNOWAIT) == 0);
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	MUST(waitpid(target, &status, 0) == target);
	MUST(status == 0 || WIFSIGNALED(status));
}

/* ---- the table ---- */

#define PROBE(function)                                                                            \
	{                                                                                          \
#function, function                                                                \
	}

static const struct {
	const char *name;
	void (*function)(void);
} probes[] = {
	PROBE(null),
	PROBE(null_call),
	PROBE(page_tables),
	PROBE(stub_writes),
	PROBE(editors_view),
	PROBE(far_addresses),
	PROBE(do_cli),
	PROBE(do_sti),
	PROBE(do_hlt),
	PROBE(do_rdmsr),
	PROBE(do_wrmsr),
	PROBE(read_cr0),
	PROBE(read_cr3),
	PROBE(write_cr3),
	PROBE(write_cr4),
	PROBE(write_dr7),
	PROBE(do_lidt),
	PROBE(do_lgdt),
	PROBE(do_ltr),
	PROBE(do_lldt),
	PROBE(do_lmsw),
	PROBE(do_clts),
	PROBE(do_invlpg),
	PROBE(do_wbinvd),
	PROBE(do_swapgs),
	PROBE(do_sysret),
	PROBE(do_sysexit),
	PROBE(do_xsetbv),
	PROBE(do_ud2),
	PROBE(do_int3),
	PROBE(do_vmcall),
	PROBE(do_vmmcall),
	PROBE(do_vmrun),
	PROBE(load_kernel_ds),
	PROBE(load_kernel_ss),
	PROBE(divide_by_zero),
	PROBE(software_interrupts),
	PROBE(far_return),
	PROBE(interrupt_return),
	PROBE(single_step),
	PROBE(many_steps),
	PROBE(flags),
	PROBE(try_sysenter),
	PROBE(wild_syscall),
	PROBE(ports),
	PROBE(gate_ports),
	PROBE(read_dr0),
	PROBE(write_dr0),
	PROBE(write_cr0),
	PROBE(write_cr8),
	PROBE(do_rdpmc),
	PROBE(do_invd),
	PROBE(do_invpcid),
	PROBE(do_monitor),
	PROBE(do_mwait),
	PROBE(do_vmload),
	PROBE(do_vmsave),
	PROBE(do_stgi),
	PROBE(do_clgi),
	PROBE(do_skinit),
	PROBE(do_invlpga),
	PROBE(do_vmxon),
	PROBE(do_vmlaunch),
	PROBE(do_vmread),
	PROBE(do_invept),
	PROBE(do_rsm),
	PROBE(do_xsaves),
	PROBE(do_encls),
	PROBE(do_wrpkru),
	PROBE(do_icebp),
	PROBE(do_wrgsbase),
	PROBE(do_wrfsbase_back),
	PROBE(table_addresses),
	PROBE(far_transfers),
	PROBE(data_segments),
	PROBE(trap_in_ring_0),
	PROBE(ring_after_interrupts),
	PROBE(ring_after_ticks),
	PROBE(handlers_under_signals),
	PROBE(sysret_anywhere),
	PROBE(flags_by_iret),
	PROBE(call_at_the_end),
	PROBE(deputy),
	PROBE(gate_jumps),
	PROBE(stub_loop),
	PROBE(stub_jumps),
	PROBE(shared_page),
	PROBE(output_of_a_lie),
	PROBE(sigreturn_registers),
	PROBE(sigreturn_floats),
	PROBE(sigreturn_stacks),
	PROBE(wild_handlers),
	PROBE(signal_stacks),
	PROBE(signal_numbers),
	PROBE(map_hints),
	PROBE(map_fixed),
	PROBE(unmap_wild),
	PROBE(map_over),
	PROBE(protect),
	PROBE(remap),
	PROBE(huge_maps),
	PROBE(many_areas),
	PROBE(many_tables),
	PROBE(block_churn),
	PROBE(all_memory),
	PROBE(heap_moves),
	PROBE(heap_under_a_file),
	PROBE(short_files),
	PROBE(read_only_files),
	PROBE(clone_wild),
	PROBE(thread_stacks),
	PROBE(many_threads),
	PROBE(futex_wild),
	PROBE(vfork_polls),
	PROBE(vfork_threads),
	PROBE(vfork_killed),
	PROBE(process_limit),
	PROBE(foreign_descriptors),
	PROBE(sent_descriptors),
	PROBE(buffers),
	PROBE(half_buffers),
	PROBE(changing_paths),
	PROBE(polls),
	PROBE(execve_wild),
	PROBE(broken_programs),
	PROBE(all_calls),
	PROBE(flood_of_signals),
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < COUNT(probes); i++)
			puts(probes[i].name);
		return 0;
	}
	if (argc > 2)
		snprintf(directory, sizeof(directory), "%s", argv[2]);
	for (size_t i = 0; i < COUNT(probes) && argc > 1; i++)
		if (strcmp(probes[i].name, argv[1]) == 0) {
			catch_faults();
			probes[i].function();
			puts("survived");
			fflush(stdout);
			_exit(0);
		}
	fprintf(stderr, "probes: no such probe\n");
	return 2;
}
