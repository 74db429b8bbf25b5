/* How a signal happens
 *
 * This process is the guest's process for the host, so signals from elsewhere come to us: a handler
 * notes them and makes the processor leave the program. They are given to a thread that does not
 * block them (signal_distribute), and happen when that thread is about to run (signal_deliver): the
 * default action, or a frame on its stack such as the kernel would have put there. */
#include "vmm/signal.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/signal_frame.h"
#include "vmm/stub/layout.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "vmm/try.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define IGNORED_BY_DEFAULT                                                                         \
	(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) | SIGNAL_BIT(SIGCONT))
#define STOPS_BY_DEFAULT                                                                           \
	(SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))

enum { HANDLER_DEFAULT = 0, HANDLER_IGNORE = 1, RED_ZONE = 128, HANDLER_STACK = 65536 };

#define SA_RESTORER 0x04000000
/* ---- from outside ---- */

static struct guest *the_guest; /* a handler has no other way to know */
static uint64_t noted;
static sigset_t waiting_mask;

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE;
}

/* No guest should be able to do this. It happens again when we return, and ends us. */
static void tell_own_fault(int number, void *context)
{
	const ucontext_t *c = context;
	char text[80];
	int len = snprintf(text, sizeof(text), "hotcell-vmm: a fault of its own, at %#llx\n",
		(unsigned long long)c->uc_mcontext.gregs[REG_RIP]);

	(void)!write(2, text, (size_t)len);
	signal(number, SIG_DFL);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	/* One of ours, not sent by anybody: as if we had no handler. */
	if (is_fault(number) && info->si_code > 0) {
		if (!try_failed(context))
			tell_own_fault(number, context);
		return;
	}
	if (number == TICK_SIGNAL && info->si_code == SI_TIMER &&
		info->si_value.sival_int == TICK_MAGIC) {
		tick_note();
		vcpu_interrupt(&the_guest->cpu);
		return;
	}
	the_guest->infos[number] = *info;
	if (info->si_code <= 0) /* from a process */
		the_guest->infos[number].si_pid = pids_shown(info->si_pid);
	__atomic_fetch_or(&noted, SIGNAL_BIT(number), __ATOMIC_SEQ_CST);
	vcpu_interrupt(&the_guest->cpu);
}

void signal_open(struct guest *g)
{
	/* On a stack of its own, so that a fault is told even at the end of ours. */
	static char stack[HANDLER_STACK];
	const stack_t own_stack = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_ONSTACK };

	the_guest = g;
	sigaltstack(&own_stack, NULL);
	sigfillset(&action.sa_mask);
	for (int n = 1; n <= SIGNALS_MAX; n++)
		sigaction(n, &action, NULL);
	/* A write tells it by its result. */
	signal(SIGPIPE, SIG_IGN);
	signal_settle_children(g);
	signal_publish(g);
	sigemptyset(&waiting_mask);
	sigprocmask(SIG_SETMASK, &waiting_mask, NULL);
}

const sigset_t *signal_waiting_mask(void)
{
	return &waiting_mask;
}

/* ---- whose it is ---- */

bool signal_is_ignored(const struct guest *g, int number)
{
	uint64_t handler = g->actions[number].handler;

	return handler == HANDLER_IGNORE ||
	       (handler == HANDLER_DEFAULT && SIGNAL_BIT(number) & IGNORED_BY_DEFAULT);
}

static uint64_t ignored_ones(const struct guest *g)
{
	uint64_t bits = 0;

	for (int n = 1; n <= SIGNALS_MAX; n++)
		if (signal_is_ignored(g, n))
			bits |= SIGNAL_BIT(n);
	return bits;
}

void signal_distribute(struct guest *g)
{
	uint64_t ignored;

	g->pending |= __atomic_exchange_n(&noted, 0, __ATOMIC_SEQ_CST);
	if (!g->pending)
		return;
	ignored = ignored_ones(g);
	for (int i = 0; i < g->threads_top && g->pending; i++) {
		struct thread *t = &g->threads[(g->current + i) % g->threads_top];
		uint64_t taken = g->pending & ~t->blocked;

		if (!t->used || (g->in_vfork && i))
			continue;
		/* One that is ignored when it comes is gone, even if it is not ignored later. */
		t->pending |= taken & ~ignored;
		g->pending &= ~taken;
	}
}

bool signal_waits(const struct guest *g, const struct thread *t)
{
	uint64_t bits = t->pending & ~t->blocked;

	if (t->waits && (t->pending | g->pending) & t->awaited)
		return true;
	return bits && (bits & ~ignored_ones(g));
}

void signal_raise(struct guest *g, struct thread *thread, int number, const siginfo_t *info)
{
	siginfo_t made = { .si_signo = number, .si_code = SI_TKILL };

	made.si_pid = g->pid;
	made.si_uid = 1000;
	if (thread && signal_is_ignored(g, number) && !(thread->blocked & SIGNAL_BIT(number)))
		return;
	g->infos[number] = info ? *info : made;
	if (thread)
		thread->pending |= SIGNAL_BIT(number);
	else
		g->pending |= SIGNAL_BIT(number);
}

void signal_fault(struct guest *g, int number, int code, uint64_t address)
{
	struct thread *t = guest_thread(g);

	g->infos[number] = (siginfo_t){ .si_signo = number, .si_code = code };
	g->infos[number].si_addr = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
	/* One that is blocked or ignored cannot be put off: the program could not go on. */
	if (t->blocked & SIGNAL_BIT(number) || g->actions[number].handler == HANDLER_IGNORE) {
		t->blocked &= ~SIGNAL_BIT(number);
		g->actions[number].handler = HANDLER_DEFAULT;
		signal_publish(g);
	}
	t->pending |= SIGNAL_BIT(number);
}

void signal_forget_noted(void)
{
	__atomic_store_n(&noted, 0, __ATOMIC_SEQ_CST);
}

void signal_pass_on(const struct guest *g)
{
	uint64_t bits = __atomic_load_n(&noted, __ATOMIC_SEQ_CST) | g->pending |
			g->threads[g->current].pending;

	/* In a vfork they may be the parent's. */
	for (int n = 1; n <= SIGNALS_MAX && !g->in_vfork; n++)
		if (bits & SIGNAL_BIT(n) && !signal_is_ignored(g, n))
			kill(getpid(), n);
}

void signal_publish(struct guest *g)
{
	volatile struct shared_action *to = guest_shared(g)->actions;

	for (int n = 0; n < SHARED_SIGNALS; n++) {
		const struct signal_action *from = &g->actions[n + 1];

		to[n].handler = from->handler;
		to[n].flags = from->flags;
		to[n].restorer = from->restorer;
		to[n].mask = from->mask;
	}
}

void signal_settle_children(const struct guest *g)
{
	struct sigaction action = { .sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_ONSTACK };

	/* The host reaps them then. */
	if (g->actions[SIGCHLD].handler == HANDLER_IGNORE)
		action = (struct sigaction){ .sa_handler = SIG_IGN };
	sigaction(SIGCHLD, &action, NULL);
}

void signal_forget_handlers(struct guest *g)
{
	for (int n = 1; n <= SIGNALS_MAX; n++)
		if (g->actions[n].handler != HANDLER_IGNORE)
			g->actions[n] = (struct signal_action){ 0 };
	signal_publish(g);
}

/* ---- frames ---- */

bool signal_on_alt_stack(const struct thread *t, uint64_t stack)
{
	return t->alt_stack.size && stack > t->alt_stack.base &&
	       stack - t->alt_stack.base <= t->alt_stack.size;
}

static void save_context(const struct thread *t, struct user_context *c, const siginfo_t *info)
{
	const struct kvm_regs *r = &t->registers.general;

	c->flags = 6; /* UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
	c->stack_base = t->alt_stack.base;
	c->stack_size = t->alt_stack.size;
	c->stack_flags = t->alt_stack.size ? 0 : SS_DISABLE;
	c->registers = (struct signal_context){
		.r8 = r->r8,
		.r9 = r->r9,
		.r10 = r->r10,
		.r11 = r->r11,
		.r12 = r->r12,
		.r13 = r->r13,
		.r14 = r->r14,
		.r15 = r->r15,
		.rdi = r->rdi,
		.rsi = r->rsi,
		.rbp = r->rbp,
		.rbx = r->rbx,
		.rdx = r->rdx,
		.rax = r->rax,
		.rcx = r->rcx,
		.rsp = r->rsp,
		.rip = r->rip,
		.eflags = r->rflags,
		.cs = 0x33,
		.ss = 0x2b,
	};
	if (info->si_signo == SIGSEGV || info->si_signo == SIGBUS) {
		c->registers.trap = 14;
		c->registers.cr2 = (uint64_t)(uintptr_t)info->si_addr;
	}
	c->mask = t->restores_blocked ? t->blocked_before : t->blocked;
}

/* The floating point state, with the marks by which programs know how large it is. */
static int put_xsave(struct guest *g, uint64_t address)
{
	static struct kvm_xsave xsave;
	uint32_t mark = XSTATE_MAGIC2;
	uint32_t software[12] = { XSTATE_MAGIC1, XSAVE_SIZE + 4, 7, 0, XSAVE_SIZE };

	if (vcpu_get_xsave(&g->cpu, &xsave))
		return -1;
	memcpy((uint8_t *)&xsave + XSAVE_SOFTWARE_AT, software, sizeof(software));
	if (mem_write(&g->mem, address, &xsave, XSAVE_SIZE) ||
		mem_write(&g->mem, address + XSAVE_SIZE, &mark, sizeof(mark)))
		return -1;
	return 0;
}

static int enter_handler(struct guest *g, int number)
{
	struct thread *t = guest_thread(g);
	struct signal_action *action = &g->actions[number];
	struct kvm_regs *r = &t->registers.general;
	struct signal_frame frame = { .restorer = action->restorer, .info = g->infos[number] };
	uint64_t stack = r->rsp - RED_ZONE;
	uint64_t xsave;

	if (action->flags & SA_ONSTACK && t->alt_stack.size && !signal_on_alt_stack(t, r->rsp))
		stack = t->alt_stack.base + t->alt_stack.size;
	xsave = (stack - XSAVE_SIZE - 4) & ~63ULL;
	/* As after a call: the return address lies where alignment expects it. */
	stack = ((xsave - sizeof(frame)) & ~15ULL) - 8;
	save_context(t, &frame.context, &frame.info);
	frame.context.registers.fpstate = xsave;
	if (!(action->flags & SA_RESTORER) || action->handler < LOW_END ||
		action->handler >= ADDRESS_END || put_xsave(g, xsave) ||
		mem_write(&g->mem, stack, &frame, sizeof(frame)))
		return -1;
	if (t->restores_blocked)
		t->blocked = t->blocked_before;
	t->restores_blocked = false;
	t->blocked |= action->mask & ~SIGNAL_UNBLOCKABLE;
	if (!(action->flags & SA_NODEFER))
		t->blocked |= SIGNAL_BIT(number);
	r->rip = action->handler;
	r->rsp = stack;
	r->rdi = (uint64_t)number;
	r->rsi = stack + offsetof(struct signal_frame, info);
	r->rdx = stack + offsetof(struct signal_frame, context);
	r->rax = 0;
	r->rflags = 0x202;
	if (action->flags & SA_RESETHAND) {
		*action = (struct signal_action){ 0 };
		signal_publish(g);
	}
	return 0;
}

int64_t call_rt_sigreturn(struct guest *g, const uint64_t a[6])
{
	static struct kvm_xsave xsave;
	struct thread *t = guest_thread(g);
	struct kvm_regs *r = &t->registers.general;
	struct user_context c;
	const struct signal_context *s = &c.registers;

	(void)a;
	/* The handler's RET took the restorer's address. */
	if (mem_read(&g->mem, &c, r->rsp, sizeof(c)))
		guest_die(g, SIGSEGV);
	*r = (struct kvm_regs){
		.r8 = s->r8,
		.r9 = s->r9,
		.r10 = s->r10,
		.r11 = s->r11,
		.r12 = s->r12,
		.r13 = s->r13,
		.r14 = s->r14,
		.r15 = s->r15,
		.rdi = s->rdi,
		.rsi = s->rsi,
		.rbp = s->rbp,
		.rbx = s->rbx,
		.rdx = s->rdx,
		.rax = s->rax,
		.rcx = s->rcx,
		.rsp = s->rsp,
		.rip = s->rip,
		.rflags = s->eflags,
	};
	if (r->rip < LOW_END || r->rip >= ADDRESS_END)
		guest_die(g, SIGSEGV);
	if (s->fpstate) {
		uint64_t features;

		if (mem_read(&g->mem, &xsave, s->fpstate, XSAVE_SIZE))
			guest_die(g, SIGSEGV);
		/* A header that the processor would refuse must not become our error. */
		features = 7;
		memset((uint8_t *)&xsave + 512, 0, 64);
		memcpy((uint8_t *)&xsave + 512, &features, sizeof(features));
		xsave.region[6] &= 0xffff; /* MXCSR: no reserved bits */
		vcpu_set_xsave(&g->cpu, &xsave);
	}
	t->blocked = c.mask & ~SIGNAL_UNBLOCKABLE;
	t->tries_again = false;
	return CALL_SET_REGISTERS;
}

/* ---- what happens ---- */

static void act_by_default(struct guest *g, int number)
{
	if (SIGNAL_BIT(number) & STOPS_BY_DEFAULT) {
		guest_flush_output(g);
		raise(SIGSTOP);
		return;
	}
	guest_die(g, number);
}

/* A call that a signal ends: made again after the handler, if that is what the program asked for. */
static void end_call(struct guest *g, const struct signal_action *action)
{
	struct thread *t = guest_thread(g);
	uint64_t done;

	if (!t->tries_again)
		return;
	t->tries_again = false;
	t->deadline_ns = 0;
	path_forget_opening(g->current);
	done = file_take_progress(g->current);
	if (done)
		t->registers.general.rax =
			done; /* part of it is done, and must not be done again */
	else if (action && action->flags & SA_RESTART && !t->restores_blocked) {
		t->registers.general.rip -= 2; /* SYSCALL */
		t->registers.general.rax = t->call.number;
	} else {
		t->registers.general.rax = (uint64_t)-EINTR;
	}
}

void signal_deliver(struct guest *g)
{
	struct thread *t = guest_thread(g);

	for (;;) {
		uint64_t bits = t->pending & ~t->blocked;
		int number;

		if (!bits)
			return;
		number = __builtin_ctzll(bits) + 1;
		/* Faults first: their frame must be that of the instruction. */
		for (int n = 1; n <= SIGNALS_MAX; n++)
			if (bits & SIGNAL_BIT(n) && is_fault(n))
				number = n;
		t->pending &= ~SIGNAL_BIT(number);
		if (signal_is_ignored(g, number))
			continue;
		if (g->actions[number].handler == HANDLER_DEFAULT) {
			act_by_default(g, number);
			continue;
		}
		end_call(g, &g->actions[number]);
		if (enter_handler(g, number))
			guest_die(g, SIGSEGV);
	}
}
