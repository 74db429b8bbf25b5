#include "vmm/snapshot.h"

#include "base/own.h"
#include "vmm/snapshot_inner.h"
#include "vmm/tables.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Behind the end of a mapped file there is nothing, and looking at it is an error. */
static sigjmp_buf nothing_there;

static void on_bus_error(int number)
{
	(void)number;
	siglongjmp(nothing_there, 1);
}

static bool has_content(const uint8_t *page)
{
	return sigsetjmp(nothing_there, 1) == 0 && !mem_is_zero(page);
}

static int write_image(const struct guest *g, int fd, struct err *e)
{
	uint64_t end = (uint64_t)g->mem.next_chunk * CHUNK;
	uint64_t from = 0;
	sigset_t bus;

	/* For good: this process ends with the snapshot. */
	signal(SIGBUS, on_bus_error);
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	sigprocmask(SIG_UNBLOCK, &bus, NULL);
	while (from < end) {
		uint64_t to = from;

		while (to < end && to - from < CHUNK && has_content(g->mem.host + to))
			to += PAGE;
		if (to > from && pwrite(fd, g->mem.host + from, to - from, (off_t)(IMAGE + from)) !=
					 (ssize_t)(to - from))
			return err_sys(e, "write the snapshot's memory");
		from = to > from ? to : from + PAGE;
	}
	if (ftruncate(fd, (off_t)(IMAGE + end)))
		return err_sys(e, "size the snapshot");
	return 0;
}

static void fill_header(
	const struct guest *g, struct header *h, uint32_t names_count, size_t names_size)
{
	*h = (struct header){
		.magic = SNAPSHOT_MAGIC,
		.version = SNAPSHOT_VERSION,
		.is_pvm = g->cpu.is_pvm,
		.memory_size = g->mem.size,
		.heap_start = g->mem.heap_start,
		.next_chunk = g->mem.next_chunk,
		.next_table = g->mem.next_table,
		.tables_end = g->mem.tables_end,
		.extra_tables_count = g->mem.extra_tables_count,
		.areas_count = g->mem.areas_count,
		.blocks_count = g->mem.blocks_count,
		.free_chunks_count = g->mem.free_chunks_count,
		.names_count = names_count,
		.names_size = (uint32_t)names_size,
		.threads_count = (uint32_t)g->threads_used,
		.current = g->current,
		.ns_per_tsc_32 = guest_shared((struct guest *)(uintptr_t)g)->ns_per_tick_32,
	};
	memcpy(h->extra_tables, g->mem.extra_tables, sizeof(h->extra_tables));
	memcpy(h->actions, g->actions, sizeof(h->actions));
	memcpy(h->exe, g->exe, sizeof(h->exe));
	memcpy(h->comm, g->comm, sizeof(h->comm));
	processor_save_features(h->features);
}

static void add_threads(const struct guest *g, bool time_stands, struct buf *b)
{
	int64_t now = guest_now_ns();

	for (int i = 0; i < g->threads_top; i++) {
		struct saved_thread s;

		if (!g->threads[i].used)
			continue;
		memset(&s, 0, sizeof(s)); /* what is between its fields, too */
		s.index = i;
		s.thread = g->threads[i];
		s.thread.polls = NULL;
		s.thread.polls_room = 0;
		/* Time stands still until a run begins: see thread_go_on(). */
		if (s.thread.deadline_ns && !time_stands)
			s.thread.deadline_ns =
				s.thread.deadline_ns > now ? s.thread.deadline_ns - now : 1;
		buf_add(b, &s, sizeof(s));
		buf_add(b, g->threads[i].polls,
			g->threads[i].polls_count * sizeof(*g->threads[i].polls));
	}
}

/* Its program, and its environment. */
static uint32_t add_words(const struct guest *g, struct buf *b)
{
	const char *const *at = g->argv ? g->environment : snapshot_words() + 1;
	const char *program = g->argv ? g->argv[0] : snapshot_words()[0];
	uint32_t count = 1;

	buf_add(b, program, strlen(program) + 1);
	for (; at && *at; at++, count++)
		buf_add(b, *at, strlen(*at) + 1);
	return count;
}

void snapshot_add_books(const struct guest *g, uint32_t names_count,
	const struct snapshot_taken *taken, bool time_stands, struct buf *books)
{
	auto_buf struct buf names = { 0 };
	struct header h;
	uint32_t words_count;

	for (uint32_t i = 1; i < names_count; i++)
		buf_add(&names, g->mem.names[i], strlen(g->mem.names[i]) + 1);
	fill_header(g, &h, names_count, names.len);
	h.recipes_count = taken->recipes_count;
	h.watches_count = taken->watches_count;
	buf_add(books, &h, sizeof(h));
	buf_add(books, taken->recipes.data, taken->recipes.len);
	buf_add(books, taken->watches.data, taken->watches.len);
	buf_add(books, g->mem.areas, g->mem.areas_count * sizeof(*g->mem.areas));
	buf_add(books, g->mem.blocks, g->mem.blocks_count * sizeof(*g->mem.blocks));
	buf_add(books, g->mem.free_chunks, g->mem.free_chunks_count * sizeof(uint32_t));
	add_threads(g, time_stands, books);
	buf_add(books, names.data, names.len);
	h.words_at = (uint32_t)books->len;
	words_count = add_words(g, books);
	h.words_count = words_count;
	memcpy(books->data, &h, sizeof(h));
}

static int take_descriptors(struct snapshot_taken *ret, struct err *e)
{
	const struct epoll_watch *watches = epoll_watches(&ret->watches_count);

	buf_add(&ret->watches, watches, ret->watches_count * sizeof(*watches));
	return recipe_take(&ret->recipes, &ret->recipes_count, e);
}

int snapshot_write(struct guest *g, int fd, struct err *e)
{
	auto_buf struct buf books = { 0 };
	struct snapshot_taken taken = { 0 };

	if (vcpu_get_xsave(&g->cpu, &guest_thread(g)->xsave))
		return err_sys(e, "KVM_GET_XSAVE");
	tables_join(&g->mem);
	if (take_descriptors(&taken, e) == 0)
		snapshot_add_books(g, g->mem.names_count, &taken, false, &books);
	buf_free(&taken.recipes);
	buf_free(&taken.watches);
	if (!books.len)
		return -1;
	if (books.len > HOT_AT)
		return err_set(e, ERR_SYSTEM, "the program has mapped too much for a snapshot");
	if (pwrite(fd, books.data, books.len, 0) != (ssize_t)books.len)
		return err_sys(e, "write the snapshot");
	return write_image(g, fd, e);
}
