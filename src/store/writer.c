/* The thread that writes.
 *
 *	waiting --> bytes synced and named --> rows, all in one transaction --> finished --> done()
 *	                    |                          |
 *	                    +-- one that fails fails alone
 *
 * So the disk is waited for a few times for all that came meanwhile, however many those are. Rows of
 * one op stand in a savepoint, and what fails in it is taken back alone. If the transaction itself
 * fails all of it is told so; unless the disk is full: then each is tried for itself, since some
 * need no room, and those that give some back are helped by giving it back first. */
#include "base/clock.h"
#include "store/inner.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { BATCH_MAX = 1000 };

/* ---- ops ---- */

struct op *op_new(int (*write)(struct store *s, struct op *op, struct err *e), store_done *done,
	void *context)
{
	struct op *op = xalloc(sizeof(*op));

	op->write = write;
	op->done = done;
	op->context = context;
	op->blob_fd = -1;
	return op;
}

void op_fail(struct op *op, const struct err *e)
{
	op->failed = true;
	op->err = *e;
	/* One name for it: callers look at no more than this. */
	if (op->err.sys_errno == EDQUOT)
		op->err.sys_errno = ENOSPC;
}

void op_add_removed(struct op *op, const char *id, sqlite3_stmt *query, int owner, int size)
{
	struct removed *removed;

	op->removed = xgrow(op->removed, (op->removed_count + 1) * sizeof(*op->removed));
	removed = &op->removed[op->removed_count++];
	snprintf(removed->id, sizeof(removed->id), "%s", id);
	removed->owner = db_text(query, owner);
	removed->size_bytes = (uint64_t)sqlite3_column_int64(query, size);
}

static void forget_removed(struct op *op)
{
	for (size_t i = 0; i < op->removed_count; i++)
		free(op->removed[i].owner);
	free(op->removed);
	op->removed = NULL;
	op->removed_count = 0;
}

static void op_free(struct op *op)
{
	forget_removed(op);
	own_close(&op->blob_fd);
	free(op->id);
	store_file_free(&op->file);
	store_session_free(&op->session);
	free(op->language.id);
	free(op->language.owner);
	free(op->language.yaml);
	free(op);
}

static void append(struct op_list *list, struct op *first, struct op *last)
{
	if (list->tail)
		list->tail->next = first;
	else
		list->head = first;
	list->tail = last;
}

void writer_submit(struct store *s, struct op *op)
{
	assert(s->has_thread); /* not for store_open_keys() */
	s->outstanding++;
	pthread_mutex_lock(&s->lock);
	append(&s->waiting, op, op);
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

/* ---- rows ---- */

int store_begin(struct store *s, struct err *e)
{
	pthread_mutex_lock(&s->writing);
	if (db_run(&s->writer, QUERY_BEGIN, e) == 0)
		return 0;
	pthread_mutex_unlock(&s->writing);
	return -1;
}

int store_end(struct store *s, bool failed, struct err *e)
{
	struct err ignored;

	if (!failed)
		failed = db_run(&s->writer, QUERY_COMMIT, e) != 0;
	/* Some failures have taken it back already. */
	if (failed && !sqlite3_get_autocommit(s->writer.sqlite))
		db_run(&s->writer, QUERY_ROLLBACK, &ignored);
	pthread_mutex_unlock(&s->writing);
	return failed ? -1 : 0;
}

/* Whether it is one that every op of the transaction suffers from. */
static bool ends_transaction(const struct store *s, const struct err *e)
{
	return e->sys_errno == ENOSPC || sqlite3_get_autocommit(s->writer.sqlite);
}

/* Within a savepoint: 0 also if it failed, alone. */
static int write_op(struct store *s, struct op *op, struct err *e)
{
	if (db_run(&s->writer, QUERY_OP_BEGIN, e))
		return -1;
	if (op->write(s, op, e)) {
		if (ends_transaction(s, e) || db_run(&s->writer, QUERY_OP_UNDO, e))
			return -1;
		op_fail(op, e);
		forget_removed(op);
	}
	return db_run(&s->writer, QUERY_OP_END, e);
}

static int write_rows(struct store *s, struct op *first, const struct op *end, struct err *e)
{
	bool failed = false;

	if (store_begin(s, e))
		return -1;
	for (struct op *op = first; op != end && !failed; op = op->next)
		failed = !op->failed && write_op(s, op, e) != 0;
	return store_end(s, failed, e);
}

static void write_alone(struct store *s, struct op *op)
{
	struct err e;

	forget_removed(op);
	if (write_rows(s, op, op->next, &e) == 0)
		return;
	if (e.sys_errno == ENOSPC && op->removed_count) {
		/* It is for giving room back that there is no room: so the bytes go first. If the
		 * row stays behind nevertheless, it goes when the store is opened. */
		blobs_remove_now(s, op);
		forget_removed(op);
		if (write_rows(s, op, op->next, &e) == 0)
			return;
	}
	forget_removed(op);
	op_fail(op, &e);
}

/* Nothing of the transaction is there, nor that some op failed in it. */
static void write_again(struct store *s, struct op *batch, const struct err *why)
{
	for (struct op *op = batch; op; op = op->next) {
		if (!op->has_rows)
			continue;
		op->failed = false;
		if (why->sys_errno == ENOSPC)
			write_alone(s, op);
		else
			op_fail(op, why);
	}
}

static void write_batch(struct store *s, struct op *batch)
{
	struct err e;

	blobs_keep(s, batch);
	for (struct op *op = batch; op; op = op->next)
		op->has_rows = !op->failed;
	if (write_rows(s, batch, NULL, &e))
		write_again(s, batch, &e);
	for (struct op *op = batch; op; op = op->next) {
		if (!op->failed)
			blobs_remove(s, op);
	}
	blobs_settle(s, batch);
}

/* ---- the thread ---- */

/* Under s->lock. */
static struct op *take_batch(struct store *s, struct op **ret_last)
{
	struct op *first = s->waiting.head;
	struct op *last = first;

	for (unsigned i = 1; i < BATCH_MAX && last->next; i++)
		last = last->next;
	s->waiting.head = last->next;
	if (!s->waiting.head)
		s->waiting.tail = NULL;
	last->next = NULL;
	*ret_last = last;
	return first;
}

/* Under s->lock. */
static void wait_for_work(struct store *s)
{
	int64_t until = s->runs_due_us;
	struct timespec at = { .tv_sec = until / 1000000, .tv_nsec = until % 1000000 * 1000 };

	if (s->runs_waiting.head)
		pthread_cond_timedwait(&s->wake, &s->lock, &at);
	else
		pthread_cond_wait(&s->wake, &s->lock);
}

/* Under s->lock, which it lets go meanwhile. */
static void write_some(struct store *s)
{
	const uint64_t one = 1;
	struct op *last;
	struct op *batch = take_batch(s, &last);

	pthread_mutex_unlock(&s->lock);
	write_batch(s, batch);
	pthread_mutex_lock(&s->lock);
	append(&s->finished, batch, last);
	/* Can fail only by being full, and then it is readable. */
	(void)!write(s->event_fd, &one, sizeof(one));
}

static void *writer_main(void *context)
{
	struct store *s = context;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		bool wrote = false;

		if (s->waiting.head) {
			write_some(s);
			wrote = true;
		}
		if (runs_are_due(s)) {
			runs_write(s);
			wrote = true;
		}
		if (wrote)
			continue;
		if (s->stopping)
			break;
		wait_for_work(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int writer_start(struct store *s, struct err *e)
{
	sigset_t all;
	sigset_t before;

	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0)
		return err_sys(e, "make an eventfd");
	/* Signals are for the loop's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&s->thread, NULL, writer_main, s);
	s->has_thread = errno == 0;
	if (!s->has_thread)
		err_sys(e, "start a thread");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s->has_thread ? 0 : -1;
}

void writer_stop(struct store *s)
{
	/* One that is told may ask for more. */
	while (s->outstanding) {
		struct pollfd ready = { .fd = s->event_fd, .events = POLLIN };

		poll(&ready, 1, -1);
		store_dispatch(s);
	}
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->has_thread = false;
}

/* ---- the loop's side ---- */

int store_fd(const struct store *s)
{
	return s->event_fd;
}

unsigned store_queued(const struct store *s)
{
	return s->outstanding;
}

void store_dispatch(struct store *s)
{
	uint64_t ignored;
	struct op *op;

	/* Before the list is taken: what comes after that makes it readable again. */
	(void)!read(s->event_fd, &ignored, sizeof(ignored));
	pthread_mutex_lock(&s->lock);
	op = s->finished.head;
	s->finished = (struct op_list){ 0 };
	pthread_mutex_unlock(&s->lock);
	while (op) {
		struct op *next = op->next;

		s->outstanding--;
		if (op->finish)
			op->finish(s, op);
		if (op->done)
			op->done(op->context, op->failed ? &op->err : NULL);
		op_free(op);
		op = next;
	}
}
