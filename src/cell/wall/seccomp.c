/* How the table becomes a filter
 *
 *	load architecture     not ours → kill the process
 *	load call number      x32 bit  → kill the process
 *	binary search over segments of call numbers that share one answer; a call whose answer
 *	depends on an argument is a segment of its own: its rows in order, the first that fits counts
 *
 * libseccomp knows the numbers, at build time. Its own rule builder is not used: it has no "first
 * match" and no "else", and the table needs both. */
#include "cell/wall/seccomp.h"

#include "base/buf.h"
#include "base/own.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define AUDIT_ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

#define X32_BIT 0x40000000U
#define LOAD(what)                                                                                 \
	(struct sock_filter)                                                                       \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, what))
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action)
#define JUMP(how, value, yes, no)                                                                  \
	(struct sock_filter) BPF_JUMP(BPF_JMP | (how) | BPF_K, value, yes, no)

enum { CODE_MAX = BPF_MAXINSNS, CALLS_MAX = 512, ROWS_MAX = 16 };

struct call {
	int number;
	unsigned rows_count;
	const struct seccomp_row *rows[ROWS_MAX];
};

/* The call numbers from `first` up to the next segment's. No call: absent. */
struct segment {
	int first;
	const struct call *call;
};

struct builder {
	struct sock_filter *code;
	unsigned len;
	struct call calls[CALLS_MAX];
	unsigned calls_count;
	struct segment segments[2 * CALLS_MAX + 1];
	unsigned segments_count;
	bool overflow;
};

static uint32_t action_of(enum seccomp_action action)
{
	if (action == CALL_ALLOWED)
		return SECCOMP_RET_ALLOW;
	if (action == CALL_IGNORED)
		return SECCOMP_RET_ERRNO;
	return SECCOMP_RET_ERRNO | (action == CALL_DENIED ? EPERM : ENOSYS);
}

static void emit(struct builder *b, struct sock_filter instruction)
{
	if (b->len < CODE_MAX)
		b->code[b->len++] = instruction;
	else
		b->overflow = true;
}

/* Little-endian: the upper half of an argument lies behind the lower one. */
static void emit_masked(struct builder *b, unsigned argument, uint32_t mask)
{
	size_t offset = offsetof(struct seccomp_data, args) + 8UL * (argument % SECCOMP_UPPER) +
			(argument >= SECCOMP_UPPER ? 4 : 0);

	emit(b, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
	if (mask != 0xffffffff)
		emit(b, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
}

static void emit_condition(struct builder *b, const struct seccomp_row *row)
{
	/* How many instructions the second condition takes: what the first jumps over. */
	uint8_t second = (uint8_t)(!row->and_mask ? 0 : row->and_mask == 0xffffffff ? 2 : 3);

	emit_masked(b, row->argument, row->mask);
	emit(b, JUMP(BPF_JEQ, row->value, 0, second + 1));
	if (second) {
		emit_masked(b, row->and_argument, row->and_mask);
		emit(b, JUMP(BPF_JEQ, row->and_value, 0, 1));
	}
	emit(b, RETURN(action_of(row->action)));
}

static void emit_answer(struct builder *b, const struct call *call)
{
	for (unsigned i = 0; call && i < call->rows_count; i++) {
		if (call->rows[i]->mask == 0) {
			emit(b, RETURN(action_of(call->rows[i]->action)));
			return;
		}
		emit_condition(b, call->rows[i]);
	}
	emit(b, RETURN(action_of(call ? CALL_DENIED : CALL_ABSENT)));
}

/* The lower half follows the question; the upper half is jumped to. A conditional jump reaches 255
 * instructions; where the lower half is longer, one that reaches anywhere is put in between. */
static void emit_search(struct builder *b, const struct segment *segments, unsigned count)
{
	unsigned half = count / 2;
	unsigned at = b->len;
	unsigned lower;

	if (count == 1) {
		emit_answer(b, segments->call);
		return;
	}
	emit(b, JUMP(BPF_JGE, (uint32_t)segments[half].first, 0, 0));
	emit_search(b, segments, half);
	lower = b->len - at - 1;
	if (lower <= UINT8_MAX) {
		b->code[at].jt = (uint8_t)lower;
	} else {
		emit(b, (struct sock_filter){ 0 });
		memmove(&b->code[at + 2], &b->code[at + 1], lower * sizeof(b->code[0]));
		b->code[at].jf = 1;
		b->code[at + 1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, lower);
	}
	emit_search(b, segments + half, count - half);
}

static bool same_answer(const struct call *x, const struct call *y)
{
	if (!x || !y)
		return x == y;
	return x->rows[0]->mask == 0 && y->rows[0]->mask == 0 &&
	       x->rows[0]->action == y->rows[0]->action;
}

static void add_segment(struct builder *b, int first, const struct call *call)
{
	if (b->segments_count && same_answer(b->segments[b->segments_count - 1].call, call))
		return;
	b->segments[b->segments_count++] = (struct segment){ .first = first, .call = call };
}

/* From the sorted calls to segments that cover all numbers, gaps included. */
static void divide(struct builder *b)
{
	int next = 0;

	for (unsigned i = 0; i < b->calls_count; i++) {
		if (b->calls[i].number > next)
			add_segment(b, next, NULL);
		add_segment(b, b->calls[i].number, &b->calls[i]);
		next = b->calls[i].number + 1;
	}
	add_segment(b, next, NULL);
}

static int by_number(const void *a, const void *b)
{
	const struct call *x = a;
	const struct call *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static bool is_left_out(const struct seccomp_row *row, const struct seccomp_options *options)
{
	return (options->memory_is_soft && strcmp(row->call, "shmget") == 0) ||
	       (options->has_mounts && row->without_mounts) || (row->vm_only && !options->is_vm);
}

static int collect(struct builder *b, const struct seccomp_options *options, struct err *e)
{
	for (unsigned i = 0; i < seccomp_table_count; i++) {
		int number = seccomp_numbers[i];
		struct call *call = NULL;

		/* Negative: not on this architecture, or newer than libseccomp: absent. */
		if (number < 0 || is_left_out(&seccomp_table[i], options))
			continue;
		for (unsigned k = 0; k < b->calls_count; k++)
			if (b->calls[k].number == number)
				call = &b->calls[k];
		if (!call && b->calls_count < CALLS_MAX) {
			call = &b->calls[b->calls_count++];
			call->number = number;
		}
		if (!call || call->rows_count == ROWS_MAX)
			return err_set(e, ERR_SYSTEM, "the seccomp table is too large");
		call->rows[call->rows_count++] = &seccomp_table[i];
	}
	qsort(b->calls, b->calls_count, sizeof(b->calls[0]), by_number);
	return 0;
}

int seccomp_compile(const struct seccomp_options *options, struct sock_fprog *ret, struct err *e)
{
	auto_free struct builder *b = xalloc(sizeof(*b));
	auto_free struct sock_filter *code = xalloc(CODE_MAX * sizeof(*code));

	b->code = code;
	if (collect(b, options, e))
		return -1;
	emit(b, LOAD(arch));
	emit(b, JUMP(BPF_JEQ, AUDIT_ARCH_NATIVE, 1, 0));
	emit(b, RETURN(SECCOMP_RET_KILL_PROCESS));
	emit(b, LOAD(nr));
#ifdef __x86_64__
	emit(b, JUMP(BPF_JSET, X32_BIT, 0, 1));
	emit(b, RETURN(SECCOMP_RET_KILL_PROCESS));
#endif
	divide(b);
	emit_search(b, b->segments, b->segments_count);
	if (b->overflow)
		return err_set(e, ERR_SYSTEM, "the seccomp filter is too long");
	ret->len = (unsigned short)b->len;
	ret->filter = take_ptr(&code);
	return 0;
}

int seccomp_install(const struct sock_fprog *program, struct err *e)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program))
		return err_sys(e, "install the seccomp filter");
	return 0;
}
