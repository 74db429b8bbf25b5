/* History. Runs wait in memory for up to a second, where readers find them too:
 *
 *	store_add_run() --> runs_waiting --> runs_writing --> the database
 *	                         ^                 |
 *	                         +--- no room -----+
 *
 * A reader looks at the lists first and at the database then: a run that is written in between is
 * seen twice, which can be told, and not missed. */
#include "base/clock.h"
#include "store/inner.h"

#include <string.h>

enum {
	WAIT_US = 900000,
	WRITE_STEP = 1000,         /* in one transaction: others wait for it */
	TRIM_STEP = 5000,          /* the same */
	WAITING_BYTES = 64 << 20,  /* then the oldest are lost */
	LIMIT_OF_TRIM = INT32_MAX, /* no history is that long */
};

void store_run_free(struct store_run *run)
{
	free(run->owner);
	free(run->session);
	free(run->summary_json);
	run->owner = run->session = run->summary_json = NULL;
}

void store_runs_free(struct store_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_run_free(&runs[i]);
	free(runs);
}

static struct store_run copy_run(const struct store_run *run)
{
	struct store_run copy = *run;

	copy.owner = xstrdup(run->owner);
	copy.session = run->session ? xstrdup(run->session) : NULL;
	copy.summary_json = xstrdup(run->summary_json);
	return copy;
}

/* ---- lists ---- */

static void push(struct run_list *list, struct waiting_run *run)
{
	run->next = NULL;
	if (list->tail)
		list->tail->next = run;
	else
		list->head = run;
	list->tail = run;
	list->bytes += run->bytes;
	list->count++;
}

static struct waiting_run *pop(struct run_list *list)
{
	struct waiting_run *run = list->head;

	list->head = run->next;
	if (!list->head)
		list->tail = NULL;
	list->bytes -= run->bytes;
	list->count--;
	return run;
}

static void drop(struct run_list *list)
{
	struct waiting_run *run = pop(list);

	store_run_free(&run->run);
	free(run);
}

void runs_free(struct run_list *list)
{
	while (list->head)
		drop(list);
}

/* ---- writing ---- */

static int check_run(const struct store_run *run)
{
	struct err ignored;

	if (!store_is_id(run->id))
		return -1;
	if (run->session && store_check_text("session", run->session, STORE_NAME_MAX, &ignored))
		return -1;
	return store_check_text("owner", run->owner, STORE_NAME_MAX, &ignored) ||
			       store_check_text(
				       "summary", run->summary_json, STORE_JSON_MAX, &ignored) ?
		       -1 :
		       0;
}

void store_add_run(struct store *s, const struct store_run *run)
{
	struct waiting_run *waiting;

	if (check_run(run))
		return;
	waiting = xalloc(sizeof(*waiting));
	waiting->run = copy_run(run);
	waiting->bytes = sizeof(*waiting) + strlen(run->owner) + strlen(run->summary_json) +
			 (run->session ? strlen(run->session) : 0);
	pthread_mutex_lock(&s->lock);
	if (!s->runs_waiting.head) {
		s->runs_due_us = clock_now_us() + WAIT_US;
		pthread_cond_signal(&s->wake); /* which sleeps without an end until now */
	}
	push(&s->runs_waiting, waiting);
	while (s->runs_waiting.head && s->runs_waiting.bytes > WAITING_BYTES)
		drop(&s->runs_waiting);
	pthread_mutex_unlock(&s->lock);
}

bool runs_are_due(const struct store *s)
{
	return s->runs_waiting.head && (s->stopping || clock_now_us() >= s->runs_due_us);
}

static int write_run(struct store *s, const struct store_run *run, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_RUN_ADD, e);

	if (!query)
		return -1;
	db_bind(query, 1, run->id);
	db_bind(query, 2, run->owner);
	db_bind(query, 3, run->session);
	db_bind(query, 4, run->summary_json);
	sqlite3_bind_double(query, 5, run->started_s);
	return db_step(&s->writer, query, e);
}

static int write_list(struct store *s, const struct run_list *list)
{
	bool failed = false;
	struct err e;

	if (store_begin(s, &e))
		return -1;
	for (const struct waiting_run *at = list->head; at && !failed; at = at->next)
		failed = write_run(s, &at->run, &e) != 0;
	return store_end(s, failed, &e);
}

/* Those that were not written are older than all that wait. */
static void put_back(struct store *s)
{
	struct run_list later = s->runs_waiting;

	s->runs_waiting = s->runs_writing;
	s->runs_writing = (struct run_list){ 0 };
	if (later.head) {
		s->runs_waiting.tail->next = later.head;
		s->runs_waiting.tail = later.tail;
		s->runs_waiting.bytes += later.bytes;
		s->runs_waiting.count += later.count;
	}
	s->runs_due_us = clock_now_us() + WAIT_US;
}

void runs_write(struct store *s)
{
	bool failed;

	while (s->runs_waiting.head && s->runs_writing.count < WRITE_STEP)
		push(&s->runs_writing, pop(&s->runs_waiting));
	pthread_mutex_unlock(&s->lock);
	failed = write_list(s, &s->runs_writing) != 0;
	pthread_mutex_lock(&s->lock);
	/* Who ends has no later. */
	if (failed && !s->stopping)
		put_back(s);
	else
		runs_free(&s->runs_writing);
}

/* ---- trimming ---- */

static int write_trimmed(struct store *s, struct op *op, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_RUN_TRIM, e);

	if (!query)
		return -1;
	sqlite3_bind_int(query, 1, TRIM_STEP);
	sqlite3_bind_int64(query, 2, (sqlite3_int64)op->count);
	if (db_step(&s->writer, query, e))
		return -1;
	op->has_more = sqlite3_changes(s->writer.sqlite) == TRIM_STEP;
	return 0;
}

static void finish_trimmed(struct store *s, struct op *op)
{
	if (!op->failed && op->has_more)
		store_trim_runs(s, op->count);
}

void store_trim_runs(struct store *s, uint64_t keep)
{
	struct op *op = op_new(write_trimmed, NULL, NULL);

	op->finish = finish_trimmed;
	op->count = keep < LIMIT_OF_TRIM ? keep : LIMIT_OF_TRIM;
	writer_submit(s, op);
}

/* ---- reading ---- */

static void read_run(sqlite3_stmt *query, struct store_run *ret)
{
	db_id(query, 0, ret->id);
	ret->owner = db_text(query, 1);
	ret->session = db_text(query, 2);
	ret->summary_json = db_text(query, 3);
	ret->started_s = sqlite3_column_double(query, 4);
}

static bool find_in(const struct run_list *list, const char *id, struct store_run *ret)
{
	for (const struct waiting_run *at = list->head; at; at = at->next) {
		if (strcmp(at->run.id, id) == 0) {
			*ret = copy_run(&at->run);
			return true;
		}
	}
	return false;
}

static bool find_waiting(struct store *s, const char *id, struct store_run *ret)
{
	bool found;

	pthread_mutex_lock(&s->lock);
	found = find_in(&s->runs_waiting, id, ret) || find_in(&s->runs_writing, id, ret);
	pthread_mutex_unlock(&s->lock);
	return found;
}

int store_find_run(
	struct store *s, const char *id, const char *owner, struct store_run *ret, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_RUN_FIND, e);
	struct store_run run = { 0 };
	int found;

	if (!query)
		return -1;
	if (!store_is_id(id))
		return err_set(e, ERR_NOT_FOUND, "there is no such run");
	found = find_waiting(s, id, &run);
	if (!found) {
		db_bind(query, 1, id);
		found = db_step(&s->reader, query, e);
		if (found < 0)
			return -1;
		if (found)
			read_run(query, &run);
	}
	if (!found || (owner && strcmp(owner, run.owner) != 0)) {
		store_run_free(&run);
		return err_set(e, ERR_NOT_FOUND, "there is no run '%s'", id);
	}
	*ret = run;
	return 0;
}

struct found_runs {
	struct store_run *at;
	size_t count;
};

static struct store_run *add_found(struct found_runs *found)
{
	found->at = xgrow(found->at, (found->count + 1) * sizeof(*found->at));
	return &found->at[found->count++];
}

static void list_in(const struct run_list *list, const char *owner, struct found_runs *found)
{
	for (const struct waiting_run *at = list->head; at; at = at->next) {
		if (strcmp(at->run.owner, owner) == 0)
			*add_found(found) = copy_run(&at->run);
	}
}

static int list_written(
	struct store *s, const char *owner, unsigned limit, struct found_runs *found, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_RUN_LIST, e);
	int more;

	if (!query)
		return -1;
	db_bind(query, 1, owner);
	sqlite3_bind_int(query, 2, (int)limit);
	while ((more = db_step(&s->reader, query, e)) > 0)
		read_run(query, add_found(found));
	return more;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_run *one = a;
	const struct store_run *other = b;

	if (one->started_s != other->started_s)
		return one->started_s < other->started_s ? 1 : -1;
	return strcmp(other->id, one->id);
}

/* Sorted, so that the same ones stand side by side. */
static void cut(struct found_runs *found, unsigned limit)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->count; i++) {
		bool again = kept && strcmp(found->at[kept - 1].id, found->at[i].id) == 0;

		if (again || kept == limit)
			store_run_free(&found->at[i]);
		else
			found->at[kept++] = found->at[i];
	}
	found->count = kept;
}

int store_list_runs(struct store *s, const char *owner, unsigned limit, struct store_run **ret,
	size_t *ret_count, struct err *e)
{
	struct found_runs found = { 0 };

	if (limit > STORE_LIST_MAX)
		limit = STORE_LIST_MAX;
	pthread_mutex_lock(&s->lock);
	list_in(&s->runs_waiting, owner, &found);
	list_in(&s->runs_writing, owner, &found);
	pthread_mutex_unlock(&s->lock);
	if (list_written(s, owner, limit, &found, e)) {
		store_runs_free(found.at, found.count);
		return -1;
	}
	if (found.count)
		qsort(found.at, found.count, sizeof(*found.at), newest_first);
	cut(&found, limit);
	*ret = found.at;
	*ret_count = found.count;
	return 0;
}
