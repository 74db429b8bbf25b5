#include "vmm/guest.h"

#include "base/fd.h"
#include "base/own.h"
#include "vmm/calls.h"
#include "vmm/fds.h"
#include "vmm/signal.h"
#include "vmm/stub/layout.h"
#include "vmm/stats.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "vmm/trace.h"
#include "vmm/warm.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define CALL_ATTENTION   ((uint64_t)-2) /* the stub's own: see stub.c */
#define AT_ATTENTION_RAX (AT_STUB_DATA + 0x10)
#define STUB_MAX_NS      5000000000 /* it moves 64 KiB, or clears what a heap gives back */

/* ---- small things ---- */

int64_t guest_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The stub has no vDSO to ask: it counts from here with the processor's own counter, whose rate is
 * measured over a time that has passed anyway. */
void guest_set_clock(struct guest *g)
{
	volatile struct shared *s = guest_shared(g);
	struct timespec monotonic;
	struct timespec realtime;

	s->tsc = __rdtsc();
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	clock_gettime(CLOCK_REALTIME, &realtime);
	s->monotonic_ns = (uint64_t)monotonic.tv_sec * 1000000000 + (uint64_t)monotonic.tv_nsec;
	s->realtime_ns = (uint64_t)realtime.tv_sec * 1000000000 + (uint64_t)realtime.tv_nsec;
	s->ns_per_tick_32 = tick_ns_per_tsc_32();
}

void guest_say(struct guest *g, const char *format, ...)
{
	char text[512];
	va_list arguments;
	int len;

	guest_flush_output(g);
	va_start(arguments, format);
	len = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	if (len > (int)sizeof(text) - 2)
		len = (int)sizeof(text) - 2;
	text[len++] = '\n';
	if (warm_keeps(g, 2, (const uint8_t *)text, (size_t)len))
		return;
	/* The host has only a placeholder for a device of ours, and it might block. */
	if (fds_kind(2) == FD_PLAIN)
		(void)!write(2, text, (size_t)len);
}

int guest_flush_output(struct guest *g)
{
	volatile struct shared *s = guest_shared(g);
	uint64_t len = s->out_len;
	uint64_t fd = s->out_fd;

	if (len == 0)
		return 0;
	s->out_len = 0;
	/* The guest may have written these itself. */
	if (len > AT_OUT_SIZE || (fd != 1 && fd != 2) || g->discards_output)
		return 0;
	if (warm_keeps(g, (int)fd, g->mem.host + AT_OUT, len))
		return 0;
	if (fd_write_all((int)fd, g->mem.host + AT_OUT, len) == 0)
		return 0;
	if (errno == EPIPE)
		signal_raise(g, guest_thread(g), SIGPIPE, NULL);
	return -errno;
}

void guest_exit(struct guest *g, int status)
{
	warm_go_out(g);
	/* As if the write had been made when the program made it. */
	if (guest_flush_output(g) == -EPIPE && g->actions[SIGPIPE].handler == 0)
		guest_die(g, SIGPIPE);
	g->in_books = false;
	_exit(status);
}

void guest_die(struct guest *g, int number)
{
	sigset_t only;

	warm_go_out(g);
	guest_flush_output(g);
	signal(number, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	g->in_books = false;
	kill(getpid(), number);
	_exit(128 + number);
}

/* ---- calls ---- */

static int64_t dispatch(struct guest *g, const struct call *call)
{
	const struct call_row *row;

	if (warm_takes(g, call))
		return warm_call(g, call);
	warm_watch(g, call);
	row = call_find(call->number);
	return row && row->handler ? row->handler(g, call->a) : -ENOSYS;
}

/* Makes the call that the current thread is in, for the first time or again. */
static void serve(struct guest *g)
{
	int index = g->current;
	struct thread *t = guest_thread(g);
	int64_t result;

	guest_flush_output(g);
	if (g->traces && trace_ends(&t->call))
		trace_call(g, &t->call, CALL_SET_REGISTERS);
	/* Our own clock interrupts calls of the host, too: that is none of the program's business. */
	do
		result = dispatch(g, &t->call);
	while (result == -EINTR && !t->tries_again && !signal_waits(g, t));
	if (result == -ENOSYS)
		stats_count_unknown(t->call.number);
	if (g->traces && result != CALL_WAITS && result != CALL_YIELDS && !trace_ends(&t->call))
		trace_call(g, &t->call, result);
	if (result == CALL_WAITS) {
		t->waits = true;
		t->tries_again = false;
		thread_publish(g);
		return;
	}
	if (result == CALL_YIELDS) {
		t->tries_again = true;
		thread_schedule(g);
		return;
	}
	/* It may be that another thread is the current one by now, if this one has ended. */
	if (!g->threads[index].used)
		return;
	if (result == CALL_SET_REGISTERS)
		return;
	t->tries_again = false;
	t->deadline_ns = 0;
	t->registers.general.rax = (uint64_t)result;
}

static bool is_programs(uint64_t address)
{
	return address >= LOW_END && address < ADDRESS_END;
}

static void take_call(struct guest *g)
{
	struct thread *t = guest_thread(g);
	const struct kvm_regs *r = &t->registers.general;

	/* Where no SYSCALL instruction can have been: on a PVM host a program may go through the gate
	 * by itself, and say what it likes. */
	if (!is_programs(r->rip))
		guest_die(g, SIGSEGV);
	if (r->rax == CALL_ATTENTION) {
		memcpy(&t->registers.general.rax, g->mem.host + AT_ATTENTION_RAX, 8);
		return;
	}
	t->call = (struct call){ r->rax, { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 } };
	t->tries_again = false;
	t->deadline_ns = 0;
	serve(g);
}

/* A fault in the stub: the program gave it a bad address. Its call is made as if the stub had passed
 * it on, with the registers that it saved. */
static void redo_stubs_call(struct guest *g)
{
	struct kvm_regs *r = &guest_thread(g)->registers.general;
	struct stub_registers saved;

	memcpy(&saved, g->mem.host + AT_STUB_STACK_TOP - sizeof(saved), sizeof(saved));
	r->r15 = saved.r15;
	r->r14 = saved.r14;
	r->r13 = saved.r13;
	r->r12 = saved.r12;
	r->rbp = saved.rbp;
	r->rbx = saved.rbx;
	r->rax = saved.rax;
	r->r9 = saved.r9;
	r->r8 = saved.r8;
	r->r10 = saved.r10;
	r->rdx = saved.rdx;
	r->rsi = saved.rsi;
	r->rdi = saved.rdi;
	r->r11 = saved.r11;
	r->rcx = saved.rcx;
	r->rsp = saved.rsp;
	r->rip = saved.rcx;
	r->rflags = saved.r11;
	g->cpu.in_stub = false;
	take_call(g);
}

/* ---- exceptions ---- */

static const struct {
	uint8_t vector;
	uint8_t signal;
	int code;
} faults[] = {
	{ 0, SIGFPE, FPE_INTDIV },
	{ 1, SIGTRAP, TRAP_TRACE },
	{ 3, SIGTRAP, SI_KERNEL },
	{ 4, SIGSEGV, SI_KERNEL },
	{ 5, SIGSEGV, SI_KERNEL },
	{ 6, SIGILL, ILL_ILLOPN },
	{ 7, SIGSEGV, SI_KERNEL },
	{ 10, SIGSEGV, SI_KERNEL },
	{ 11, SIGBUS, SI_KERNEL },
	{ 12, SIGBUS, SI_KERNEL },
	{ 13, SIGSEGV, SI_KERNEL },
	{ 16, SIGFPE, FPE_FLTINV },
	{ 17, SIGBUS, BUS_ADRALN },
	{ 19, SIGFPE, FPE_FLTINV },
};

static void take_exception(struct guest *g, const struct fault *f)
{
	uint64_t rip = guest_thread(g)->registers.general.rip;

	if (f->vector == 14) {
		int code = mem_fault(&g->mem, f->address, f->error_code);

		if (f->in_stub && (code || !g->cpu.in_stub))
			redo_stubs_call(g);
		else if (code)
			signal_fault(g, SIGSEGV, code, f->address);
		return;
	}
	if (f->in_stub)
		guest_die(g, SIGSEGV);
	for (size_t i = 0; i < COUNT(faults); i++)
		if (faults[i].vector == f->vector) {
			signal_fault(
				g, faults[i].signal, faults[i].code, f->vector == 13 ? 0 : rip);
			return;
		}
	guest_die(g, SIGSEGV);
}

/* ---- the loop ---- */

static bool in_stub(struct guest *g)
{
	return g->cpu.in_stub;
}

static void take_interrupt(struct guest *g)
{
	static uint64_t at_exit;
	static int64_t since_ns;
	int64_t now = guest_now_ns();

	/* The stub is soon done, and then leaves by itself. A program that has gone there on its own
	 * account may stay for ever. */
	if (in_stub(g)) {
		if (since_ns == 0 || g->exits != at_exit + 1)
			since_ns = now;
		at_exit = g->exits;
		if (now - since_ns > STUB_MAX_NS)
			guest_die(g, SIGSEGV);
		guest_shared(g)->attention = 1;
		return;
	}
	guest_shared(g)->attention = 0;
	guest_flush_output(g);
	if (!tick_happened())
		return;
	warm_go_out(g);
	/* Others may be asleep, but their time may have come. */
	if (g->threads_used > 1)
		thread_schedule(g);
}

/* Whoever may run next is the current thread afterwards, with no signal and no call left to do. */
static void settle(struct guest *g)
{
	for (;;) {
		struct thread *t = guest_thread(g);

		if (t->waits) {
			guest_flush_output(g);
			thread_schedule(g);
			continue;
		}
		signal_distribute(g);
		if (signal_waits(g, t)) {
			signal_deliver(g);
			continue;
		}
		if (!t->tries_again)
			return;
		serve(g);
	}
}

/* For whoever traces: the program is ended for something that no program does. */
static void tell_broken(struct guest *g, int error)
{
	const struct kvm_run *run = g->cpu.run;

	if (g->traces)
		guest_say(g, "[%d] the machine stopped: errno %d, exit %u, port %#x, rip %#llx",
			guest_thread(g)->tid, error, run->exit_reason,
			run->exit_reason == KVM_EXIT_IO ? run->io.port : 0,
			(unsigned long long)guest_thread(g)->registers.general.rip);
}

void guest_run(struct guest *g)
{
	for (;;) {
		struct fault fault = { 0 };
		enum vcpu_exit exit;

		if (!in_stub(g))
			settle(g);
		if (mem_flush(&g->mem)) {
			guest_say(g, "hotcell: the page tables could not be changed");
			guest_die(g, SIGKILL);
		}
		g->in_books = false;
		exit = vcpu_run(&g->cpu, &guest_thread(g)->registers, g->mem.host, &fault);
		g->in_books = true;
		g->exits++;
		stats_count_exit();
		switch (exit) {
		case VCPU_CALL:
			take_call(g);
			break;
		case VCPU_EXCEPTION:
			take_exception(g, &fault);
			break;
		case VCPU_INTERRUPTED:
			take_interrupt(g);
			break;
		case VCPU_EDITED:
		case VCPU_BROKEN:
			if (errno == EFAULT) {
				/* Memory that went away under it: a file that was cut short. */
				signal_fault(g, SIGBUS, BUS_ADRERR, 0);
				break;
			}
			tell_broken(g, errno);
			guest_die(g, SIGSEGV);
		}
	}
}
