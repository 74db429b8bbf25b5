/* The stub: system calls that are answered inside the guest, since leaving it is dear.
 *
 * SYSCALL comes here. What the stub can answer it answers; anything else goes through the gate to
 * the VMM with all registers as the program had them. It is not re-entrant: no signal and no other
 * thread comes in between. A fault in here makes the VMM start over, with the saved registers, as
 * if the stub had sent the call on at once; so nothing is changed before all of the program's
 * memory was touched. */
#include "vmm/stub/layout.h"
#include "vmm/stub/shared.h"

typedef unsigned long u64;

#define SHARED ((volatile struct shared *)AT_SHARED)

struct answer {
	u64 value;
	u64 known;
};

/* clang-format off */
__asm__(
	".section .text.entry,\"ax\"\n"
	".globl entry\n"
	"entry:\n"
	"	mov	%rsp, save_rsp\n"
	"	mov	$stack_top, %rsp\n"
	"	push	save_rsp\n"
	"	push	%rcx\n"
	"	push	%r11\n"
	"	push	%rdi\n"
	"	push	%rsi\n"
	"	push	%rdx\n"
	"	push	%r10\n"
	"	push	%r8\n"
	"	push	%r9\n"
	"	push	%rax\n"
	"	push	%rbx\n"
	"	push	%rbp\n"
	"	push	%r12\n"
	"	push	%r13\n"
	"	push	%r14\n"
	"	push	%r15\n"
	"	mov	%r10, %rcx\n"
	"	mov	%rax, %r8\n"
	"	call	answer\n"
	"	add	$48, %rsp\n"
	"	test	%rdx, %rdx\n"
	"	jnz	1f\n"
	"	pop	%rax\n"
	"	mov	$gate, %rcx\n"
	"	jmp	2f\n"
	"1:	add	$8, %rsp\n"
	"	mov	$gate_return, %rcx\n"
	"	cmpq	$0, attention\n"
	"	je	2f\n"
	"	mov	$gate_attention, %rcx\n"
	"2:	mov	%rcx, where_to\n"
	"	pop	%r9\n"
	"	pop	%r8\n"
	"	pop	%r10\n"
	"	pop	%rdx\n"
	"	pop	%rsi\n"
	"	pop	%rdi\n"
	"	pop	%r11\n"
	"	pop	%rcx\n"
	"	pop	%rsp\n"
	"	jmp	*where_to\n"
	/* A call that does not exist: the VMM sees to what it wants attention for, and returns. */
	"gate_attention:\n"
	"	mov	%rax, attention_rax\n"
	"	mov	$-2, %rax\n"
	"	jmp	gate\n"
	".text\n");
/* clang-format on */

static u64 now_ns(u64 base)
{
	unsigned low;
	unsigned high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return base + (u64)(((unsigned __int128)(((u64)high << 32 | low) - SHARED->tsc) *
				    SHARED->ns_per_tick_32) >>
			      32);
}

/* The program may give any address; what is ours is not for it to have written. */
static int is_users(u64 address, u64 size)
{
	return address >= LOW_END && size <= USER_END && address <= USER_END - size;
}

static u64 clock_base(u64 clock, u64 *ret)
{
	switch (clock) {
	case 0: /* CLOCK_REALTIME */
	case 5: /* …_COARSE */
		*ret = SHARED->realtime_ns;
		return 1;
	case 1: /* CLOCK_MONOTONIC */
	case 4: /* …_RAW */
	case 6: /* …_COARSE */
	case 7: /* CLOCK_BOOTTIME */
		*ret = SHARED->monotonic_ns;
		return 1;
	default:
		return 0;
	}
}

static void zero(u64 address, u64 size)
{
	__asm__ volatile("rep stosb" : "+D"(address), "+c"(size) : "a"(0) : "memory");
}

static void copy(u64 to, u64 from, u64 size)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

static struct answer unknown(void)
{
	return (struct answer){ 0, 0 };
}

static struct answer known(u64 value)
{
	SHARED->calls++;
	return (struct answer){ value, 1 };
}

static struct answer do_brk(u64 wanted)
{
	u64 now = SHARED->heap;

	if (wanted < SHARED->heap_start)
		return known(now);
	if (wanted > SHARED->heap_end || !is_users(wanted, 0))
		return unknown();
	if (wanted < now)
		zero(wanted, now - wanted);
	SHARED->heap = wanted;
	return known(wanted);
}

static struct answer do_write(u64 fd, u64 data, u64 size)
{
	u64 used = SHARED->out_len;

	if (fd > 2 || !(SHARED->out_fds >> fd & 1) || !is_users(data, size))
		return unknown();
	if (used > AT_OUT_SIZE || size > AT_OUT_SIZE - used || (used && SHARED->out_fd != fd))
		return unknown();
	copy(AT_OUT + used, data, size);
	SHARED->out_fd = fd;
	SHARED->out_len = used + size;
	return known(size);
}

static struct answer do_wake(u64 address)
{
	u64 count = SHARED->waiters_count;

	if (count > SHARED_WAITERS_MAX)
		return unknown();
	for (u64 i = 0; i < count; i++)
		if (SHARED->waiters[i] == address)
			return unknown();
	return known(0);
}

static struct answer do_clock(u64 clock, u64 ret)
{
	u64 ns;

	if (!clock_base(clock, &ns) || !is_users(ret, 16))
		return unknown();
	ns = now_ns(ns);
	((volatile u64 *)ret)[0] = ns / 1000000000;
	((volatile u64 *)ret)[1] = ns % 1000000000;
	return known(0);
}

static struct answer do_timeofday(u64 ret, u64 zone)
{
	u64 ns = now_ns(SHARED->realtime_ns);

	if (zone || !is_users(ret, 16))
		return unknown();
	((volatile u64 *)ret)[0] = ns / 1000000000;
	((volatile u64 *)ret)[1] = ns % 1000000000 / 1000;
	return known(0);
}

/* Only asked: whoever starts another program asks about all of them. */
static struct answer do_sigaction(u64 number, u64 new, u64 old, u64 size)
{
	if (new || size != 8 || number - 1 >= SHARED_SIGNALS ||
		!is_users(old, sizeof(struct shared_action)))
		return unknown();
	copy(old, (u64)&SHARED->actions[number - 1], sizeof(struct shared_action));
	return known(0);
}

struct answer answer(u64 a, u64 b, u64 c, u64 d, u64 number);

struct answer answer(u64 a, u64 b, u64 c, u64 d, u64 number)
{
	if (SHARED->every_call_leaves)
		return unknown();
	switch (number) {
	case 1:
		return do_write(a, b, c);
	case 12:
		return do_brk(a);
	case 13:
		return do_sigaction(a, b, c, d);
	case 24: /* sched_yield */
		return SHARED->one_thread ? known(0) : unknown();
	case 28: /* madvise: advice that needs no action */
		return c == 4 || c == 8 || c >= 18 ? unknown() : known(0);
	case 39:
		return known(SHARED->pid);
	case 96:
		return do_timeofday(a, b);
	case 102:
	case 104:
	case 107:
	case 108:
		return known(1000);
	case 186:
		return known(SHARED->tid);
	case 202: /* futex: FUTEX_WAKE and FUTEX_WAKE_BITSET where nobody waits */
		return (b & 127) == 1 || (b & 127) == 10 ? do_wake(a) : unknown();
	case 228:
		return do_clock(a, b);
	case 273: /* set_robust_list: no lock outlives a machine */
		return known(0);
	case 334: /* rseq: there is none, and every C library asks */
		return known((u64)-38);
	default:
		return unknown();
	}
}
