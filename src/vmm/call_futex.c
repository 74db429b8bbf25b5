#include "vmm/call_futex.h"

#include "base/own.h"
#include "vmm/signal.h"
#include "vmm/thread.h"
#include "vmm/try.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long a shared futex is waited for in the host at a time: other threads and signals come
 * between. */
enum { SHARED_WAIT_NS = 2000000 };

unsigned futex_wake(struct guest *g, uint64_t address, unsigned count, uint32_t bits)
{
	unsigned woken = 0;

	for (int i = 0; i < g->threads_top && woken < count; i++) {
		struct thread *t = &g->threads[i];

		if (!t->used || !t->waits || t->futex != address || !(t->futex_bits & bits))
			continue;
		thread_wake(t);
		t->woken = true;
		woken++;
	}
	thread_publish(g);
	return woken;
}

static unsigned requeue(struct guest *g, uint64_t from, uint64_t to, unsigned count)
{
	unsigned moved = 0;

	for (int i = 0; i < g->threads_top && moved < count; i++) {
		if (!g->threads[i].used || !g->threads[i].waits || g->threads[i].futex != from)
			continue;
		g->threads[i].futex = to;
		moved++;
	}
	thread_publish(g);
	return moved;
}

/* The word itself, in our memory: for the host's futexes and for changing it in one step, which it
 * is anyway as long as no thread runs. */
static uint32_t *word(struct guest *g, uint64_t address, bool to_write)
{
	struct iovec piece;

	if (address % 4 || mem_pieces(&g->mem, address, 4, to_write, &piece, 1) != 1 ||
		piece.iov_len != 4)
		return NULL;
	return piece.iov_base;
}

/* 0 or -EFAULT: it may be in a file that was cut short. */
static int look(const uint32_t *w, uint32_t *ret)
{
	return try_copy(ret, w, sizeof(*ret));
}

static bool is_shared(struct guest *g, uint64_t address, uint64_t op)
{
	const struct area *a = op & FUTEX_PRIVATE_FLAG ? NULL : mem_find(&g->mem, address);

	return a && a->kind == AREA_SHARED;
}

/* Another process may wake it: the host's futex, in short portions. */
static int64_t wait_shared(struct guest *g, uint32_t *w, uint32_t value)
{
	struct thread *t = guest_thread(g);
	struct timespec portion = { .tv_nsec = thread_others_run(g) ? 0 : SHARED_WAIT_NS };
	int64_t left;

	if (thread_expired(t))
		return -ETIMEDOUT;
	left = t->deadline_ns ? t->deadline_ns - guest_now_ns() : SHARED_WAIT_NS;
	if (left < portion.tv_nsec)
		portion.tv_nsec = left > 0 ? left : 0;
	if (syscall(SYS_futex, w, FUTEX_WAIT, value, &portion, NULL, 0) == 0)
		return 0;
	if (errno == EAGAIN)
		return t->tries_again ? 0 : -EAGAIN;
	if (errno == EFAULT)
		return -EFAULT;
	if (signal_waits(g, t))
		return -EINTR;
	return CALL_YIELDS;
}

static int64_t do_wait(struct guest *g, const uint64_t a[6], uint64_t op, uint32_t bits)
{
	struct thread *t = guest_thread(g);
	bool is_absolute = (op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
	uint32_t *w = word(g, a[0], false);
	uint32_t now;
	int result;

	if (t->tries_again && t->woken)
		return 0;
	if (t->tries_again && !is_shared(g, a[0], op))
		return thread_expired(t) ? -ETIMEDOUT : -EINTR;
	if (!w)
		return a[0] % 4 ? -EINVAL : -EFAULT;
	if (!bits)
		return -EINVAL;
	if (look(w, &now))
		return -EFAULT;
	if (!t->tries_again && now != (uint32_t)a[2])
		return -EAGAIN;
	result = thread_deadline(
		g, a[3], is_absolute, op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC);
	if (result)
		return result;
	if (is_shared(g, a[0], op))
		return wait_shared(g, w, (uint32_t)a[2]);
	t->futex = a[0];
	t->futex_bits = bits;
	t->woken = false;
	return CALL_WAITS;
}

static int64_t do_wake(struct guest *g, const uint64_t a[6], uint64_t op, uint32_t bits)
{
	uint32_t *w = word(g, a[0], false);

	if (!w)
		return a[0] % 4 ? -EINVAL : -EFAULT;
	if (is_shared(g, a[0], op)) {
		long woken = syscall(SYS_futex, w, FUTEX_WAKE, (int)a[2], NULL, NULL, 0);

		return woken < 0 ? -errno : woken;
	}
	return futex_wake(g, a[0], (unsigned)a[2], bits);
}

static int64_t do_wake_op(struct guest *g, const uint64_t a[6])
{
	uint32_t *w = word(g, a[4], true);
	uint32_t code = (uint32_t)a[5];
	uint32_t operand = (code >> 12 & 0xfff);
	uint32_t compared = code & 0xfff;
	unsigned count;
	uint32_t old;
	uint32_t new;
	bool holds;

	if (!w || look(w, &old))
		return -EFAULT;
	if (code >> 28 & FUTEX_OP_OPARG_SHIFT)
		operand = 1U << (operand & 31);
	switch (code >> 28 & 7) {
	case FUTEX_OP_SET:
		new = operand;
		break;
	case FUTEX_OP_ADD:
		new = old + operand;
		break;
	case FUTEX_OP_OR:
		new = old | operand;
		break;
	case FUTEX_OP_ANDN:
		new = old & ~operand;
		break;
	case FUTEX_OP_XOR:
		new = old ^ operand;
		break;
	default:
		return -ENOSYS;
	}
	if (try_copy(w, &new, sizeof(new)))
		return -EFAULT;
	switch (code >> 24 & 15) {
	case FUTEX_OP_CMP_EQ:
		holds = old == compared;
		break;
	case FUTEX_OP_CMP_NE:
		holds = old != compared;
		break;
	case FUTEX_OP_CMP_LT:
		holds = (int32_t)old < (int32_t)compared;
		break;
	case FUTEX_OP_CMP_LE:
		holds = (int32_t)old <= (int32_t)compared;
		break;
	case FUTEX_OP_CMP_GT:
		holds = (int32_t)old > (int32_t)compared;
		break;
	case FUTEX_OP_CMP_GE:
		holds = (int32_t)old >= (int32_t)compared;
		break;
	default:
		return -ENOSYS;
	}
	count = futex_wake(g, a[0], (unsigned)a[2], ~0U);
	if (holds)
		count += futex_wake(g, a[4], (unsigned)a[3], ~0U);
	return count;
}

static int64_t do_requeue(struct guest *g, const uint64_t a[6], bool compares)
{
	uint32_t *w = word(g, a[0], false);
	unsigned count;
	unsigned moved;
	uint32_t now;

	if (!w || look(w, &now))
		return -EFAULT;
	if (compares && now != (uint32_t)a[5])
		return -EAGAIN;
	count = futex_wake(g, a[0], (unsigned)a[2], ~0U);
	moved = requeue(g, a[0], a[4], (unsigned)a[3]);
	return compares ? count + moved : count;
}

int64_t call_futex(struct guest *g, const uint64_t a[6])
{
	uint64_t op = a[1];

	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
		return do_wait(g, a, op, ~0U);
	case FUTEX_WAIT_BITSET:
		return do_wait(g, a, op, (uint32_t)a[5]);
	case FUTEX_WAKE:
		return do_wake(g, a, op, ~0U);
	case FUTEX_WAKE_BITSET:
		return do_wake(g, a, op, (uint32_t)a[5]);
	case FUTEX_REQUEUE:
		return do_requeue(g, a, false);
	case FUTEX_CMP_REQUEUE:
		return do_requeue(g, a, true);
	case FUTEX_WAKE_OP:
		return do_wake_op(g, a);
	default:
		return -ENOSYS; /* priority inheritance: glibc goes without */
	}
}
