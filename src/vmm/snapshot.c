#include "vmm/snapshot.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/dirty.h"
#include "vmm/recipe.h"
#include "vmm/snapshot_file.h"
#include "vmm/stub/layout.h"
#include "vmm/tables.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* More entries than this take longer to edit than a new machine takes to make. */
enum {
	EDITS_WORTH = 100,
	REMAPS_WORTH = 256,
	GIVEN_BACK = 1 << 20,
	TABLES_LOW_END = AT_GDT,
};

/* The file, mapped for reading: header, books and image. */
static const uint8_t *file;
static int file_fd = -1;
static const char **start_words; /* in it */

/* ---- writing ---- */

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

/* Descriptors can only be taken once, from a program that ends. */
struct taken {
	struct buf recipes;
	uint32_t recipes_count;
	struct buf watches;
	uint32_t watches_count;
};

/* With the first `names_count` names. */
static void add_books(const struct guest *g, uint32_t names_count, const struct taken *taken,
	bool time_stands, struct buf *books)
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

static int take_descriptors(struct taken *ret, struct err *e)
{
	const struct epoll_watch *watches = epoll_watches(&ret->watches_count);

	buf_add(&ret->watches, watches, ret->watches_count * sizeof(*watches));
	return recipe_take(&ret->recipes, &ret->recipes_count, e);
}

int snapshot_write(struct guest *g, int fd, struct err *e)
{
	auto_buf struct buf books = { 0 };
	struct taken taken = { 0 };

	if (vcpu_get_xsave(&g->cpu, &guest_thread(g)->xsave))
		return err_sys(e, "KVM_GET_XSAVE");
	if (take_descriptors(&taken, e) == 0)
		add_books(g, g->mem.names_count, &taken, false, &books);
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

/* ---- loading ---- */

static const struct header *header(void)
{
	return (const struct header *)(const void *)file;
}

static const uint8_t *image(void)
{
	return file + IMAGE;
}

static uint64_t image_size(void)
{
	return (uint64_t)header()->next_chunk * CHUNK;
}

static int map_file(int fd, struct err *e)
{
	struct stat status;
	void *map;

	if (fstat(fd, &status) || (uint64_t)status.st_size < IMAGE)
		return err_set(e, ERR_SYSTEM, "the snapshot is cut short");
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(e, "map the snapshot");
	file_fd = fd;
	return snapshot_use(map, (uint64_t)status.st_size, e);
}

int snapshot_use(const uint8_t *bytes, uint64_t size, struct err *e)
{
	if (!snapshot_is_sound(bytes, size))
		return err_set(e, ERR_SYSTEM, "this is not a snapshot of this version");
	file = bytes;
	return 0;
}

static struct recipes recipes(void)
{
	const uint8_t *at = file + sizeof(struct header);

	return (struct recipes){
		.at = (const struct recipe *)(const void *)at,
		.count = header()->recipes_count,
		.watches =
			(const struct epoll_watch *)(const void *)(at +
								   header()->recipes_count *
									   sizeof(struct recipe)),
		.watches_count = header()->watches_count,
	};
}

int snapshot_make_descriptors(struct err *e)
{
	struct recipes r = recipes();

	return recipe_make(&r, e);
}

static const uint8_t *read_threads(struct guest *g, const uint8_t *at)
{
	for (int i = 0; i < g->threads_top; i++) {
		g->threads[i].used = false;
		g->threads[i].polls_count = 0;
	}
	for (uint32_t i = 0; i < header()->threads_count; i++) {
		struct saved_thread s;
		struct thread *t;
		uint32_t polls_count;

		memcpy(&s, at, sizeof(s));
		at += sizeof(s);
		t = &g->threads[s.index];
		polls_count = s.thread.polls_count;
		s.thread.polls = t->polls;
		s.thread.polls_room = t->polls_room;
		s.thread.polls_count = 0;
		*t = s.thread;
		t->used = true;
		if (s.index >= g->threads_top)
			g->threads_top = s.index + 1;
		for (uint32_t k = 0; k < polls_count; k++) {
			struct pollfd p;

			memcpy(&p, at, sizeof(p));
			at += sizeof(p);
			thread_wait_fd(t, p.fd, p.events);
		}
	}
	g->threads_used = (int)header()->threads_count;
	g->current = header()->current;
	return at;
}

/* Everything that the VMM itself keeps about the guest. */
int snapshot_read_books(struct guest *g, struct err *e)
{
	const struct header *h = header();
	struct mem *m = &g->mem;
	const uint8_t *at = file + sizeof(*h) + h->recipes_count * sizeof(struct recipe) +
			    h->watches_count * sizeof(struct epoll_watch);
	size_t size;

	m->heap_start = h->heap_start;
	m->next_chunk = h->next_chunk;
	m->next_table = h->next_table;
	m->tables_end = h->tables_end;
	m->extra_tables_count = h->extra_tables_count;
	memcpy(m->extra_tables, h->extra_tables, sizeof(h->extra_tables));
	m->edits_count = 0;

	m->areas_count = h->areas_count;
	m->areas = mem_grow(m->areas, &m->areas_room, h->areas_count, sizeof(*m->areas));
	size = h->areas_count * sizeof(*m->areas);
	memcpy(m->areas, at, size);
	at += size;
	m->blocks_count = h->blocks_count;
	m->blocks = mem_grow(m->blocks, &m->blocks_room, h->blocks_count, sizeof(*m->blocks));
	size = h->blocks_count * sizeof(*m->blocks);
	memcpy(m->blocks, at, size);
	at += size;
	m->free_chunks_count = h->free_chunks_count;
	m->free_chunks = mem_grow(
		m->free_chunks, &m->free_chunks_room, h->free_chunks_count + 1, sizeof(uint32_t));
	size = h->free_chunks_count * sizeof(uint32_t);
	memcpy(m->free_chunks, at, size);
	at += size;

	at = read_threads(g, at);
	/* Names are only ever added: the first ones are still the snapshot's. */
	for (uint32_t i = m->names_count; i < h->names_count; i++) {
		mem_name(m, (const char *)at);
		at += strlen((const char *)at) + 1;
	}
	memcpy(g->actions, h->actions, sizeof(h->actions));
	memcpy(g->exe, h->exe, sizeof(h->exe));
	memcpy(g->comm, h->comm, sizeof(h->comm));
	g->pending = 0;
	g->open_files = g->open_files_most = g->open_files_max;
	g->keeps_output = true;
	g->nice = g->first_nice;
	g->address_space = g->address_space_most = RLIM_INFINITY;
	m->snapshot_chunks = h->next_chunk;
	m->remaps_count = 0;
	/* Areas name their files by number. */
	if (m->names_count < h->names_count)
		return err_set(e, ERR_SYSTEM, "the snapshot has a name twice");
	return 0;
}

/* They are the last of the books. */
static void find_words(void)
{
	const struct header *h = header();
	const char *at = (const char *)file + h->words_at;

	start_words = xalloc((h->words_count + 2UL) * sizeof(*start_words));
	start_words[0] = "";
	for (uint32_t i = 0; i < h->words_count; i++) {
		start_words[i] = at;
		at += strlen(at) + 1;
	}
}

const char *const *snapshot_words(void)
{
	static const char *const none[] = { "", NULL };

	return start_words ? start_words : none;
}

static int new_machine(struct guest *g, struct err *e)
{
	vcpu_close(&g->cpu);
	if (vcpu_open(&g->cpu, VMM_KVM_FD, e))
		return -1;
	return mem_attach(&g->mem, &g->cpu, e);
}

static int begin(struct guest *g, struct err *e)
{
	g->cpu.stands = STANDS_IN_KERNEL;
	if (vcpu_set_xsave(&g->cpu, &guest_thread(g)->xsave))
		return err_sys(e, "KVM_SET_XSAVE");
	return 0;
}

static int map_image(struct guest *g, uint64_t from, uint64_t to, struct err *e)
{
	if (mmap(g->mem.host + from, to - from, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_fd,
		    (off_t)(IMAGE + from)) == MAP_FAILED)
		return err_sys(e, "map the snapshot's memory");
	return 0;
}

static const struct hot_range *hot_ranges(void)
{
	return (const struct hot_range *)(const void *)(file + HOT_AT);
}

int snapshot_load(struct guest *g, int fd, uint64_t memory_size, bool for_one_run, struct err *e)
{
	if (map_file(fd, e))
		return -1;
	g->cpu.is_pvm = header()->is_pvm;
	if (memory_size < header()->memory_size)
		memory_size = header()->memory_size;
	if (mem_open(&g->mem, memory_size, e))
		return -1;
	if (snapshot_read_books(g, e))
		return -1;
	find_words();
	tick_set_ns_per_tsc_32(header()->ns_per_tsc_32);
	processor_load_features(header()->features);
	if (map_image(g, 0, image_size(), e))
		return -1;
	hot_fetch(&g->mem, hot_ranges(), for_one_run ? header()->hot_count : header()->hot_written);
	return new_machine(g, e) || snapshot_make_descriptors(e) || begin(g, e) ? -1 : 0;
}

/* ---- learning what is used ---- */

int snapshot_watch_use(struct guest *g, int fd, struct err *e)
{
	if (map_file(fd, e) || snapshot_read_books(g, e) || map_image(g, 0, image_size(), e))
		return -1;
	hot_watch(&g->mem);
	return new_machine(g, e) || begin(g, e) ? -1 : 0;
}

int snapshot_write_use(struct guest *g, struct err *e)
{
	static struct hot_range ranges[HOT_RANGES_MAX];
	uint32_t counts[2]; /* hot_written, hot_count */

	if (hot_learn(&g->mem, image_size(), ranges, &counts[0], &counts[1], e))
		return -1;
	if (pwrite(file_fd, ranges, HOT_SIZE, (off_t)HOT_AT) != HOT_SIZE ||
		pwrite(file_fd, counts, sizeof(counts), offsetof(struct header, hot_written)) !=
			sizeof(counts))
		return err_sys(e, "write what the snapshot's program uses");
	return 0;
}

/* ---- going back ---- */

static bool is_table(const struct mem *m, uint64_t physical)
{
	if (physical < LOW_END)
		return physical < TABLES_LOW_END || physical >= AT_TABLES;
	for (uint32_t i = 0; i < m->extra_tables_count; i++)
		if (physical / CHUNK == m->extra_tables[i])
			return true;
	return false;
}

/* How many entries of a table the processor would have to change. */
static unsigned count_edits(const struct mem *m, uint64_t physical)
{
	const uint64_t *now = (const uint64_t *)(const void *)(m->host + physical);
	const uint64_t *then = (const uint64_t *)(const void *)(image() + physical);
	unsigned count = 0;

	for (unsigned i = 0; i < PAGE / 8; i++)
		count += now[i] != then[i] && now[i] & 1;
	return count;
}

static void reset_table(struct mem *m, uint64_t physical)
{
	uint64_t *now = (uint64_t *)(void *)(m->host + physical);
	const uint64_t *then = (const uint64_t *)(const void *)(image() + physical);

	for (unsigned i = 0; i < PAGE / 8; i++)
		if (now[i] != then[i])
			/* What it maps is not known here; all that it might map is forgotten when the
			 * entry itself is written. */
			tables_put(m, &now[i], then[i], 0);
}

/* What the host has mapped behind the guest since: files, or plain memory where the image was. */
static int reset_mappings(struct guest *g, struct err *e)
{
	struct mem *m = &g->mem;
	uint64_t end = image_size();

	for (uint32_t i = 0; i < m->remaps_count; i++) {
		uint64_t from = m->remaps[i].start;
		uint64_t to = m->remaps[i].end;

		if (from < end && map_image(g, from, to < end ? to : end, e))
			return -1;
		if (to > end && mmap(m->host + (from > end ? from : end),
					to - (from > end ? from : end), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
					0) == MAP_FAILED)
			return err_sys(e, "plain memory");
	}
	return 0;
}

/* A page that stays ours is there at once in the next run; but it is also copied after every one, and
 * few need a megabyte in one piece again. */
static void put_back(const struct mem *m, const struct dirty_range *range)
{
	uint64_t size = range->end - range->start;

	if (size >= GIVEN_BACK)
		madvise(m->host + range->start, size, MADV_DONTNEED);
	else
		memcpy(m->host + range->start, image() + range->start, size);
}

int snapshot_reset(struct guest *g, struct err *e)
{
	struct mem *m = &g->mem;
	uint64_t end = image_size();
	uint64_t used = (uint64_t)m->next_chunk * CHUNK;
	const struct dirty_range *dirty;
	unsigned edits = 0;
	bool same_machine;
	int count;

	if (reset_mappings(g, e))
		return -1;
	count = dirty_find(m->host, end, &dirty, e);
	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++)
		for (uint64_t at = dirty[i].start; at < dirty[i].end; at += PAGE)
			if (is_table(m, at))
				edits += count_edits(m, at);
	/* Tables that came from beyond the image cannot be undone one by one. */
	same_machine = edits <= EDITS_WORTH &&
		       m->extra_tables_count == header()->extra_tables_count &&
		       m->remaps_count <= REMAPS_WORTH;
	if (same_machine) {
		for (int i = 0; i < count; i++)
			for (uint64_t at = dirty[i].start; at < dirty[i].end; at += PAGE)
				if (is_table(m, at))
					reset_table(m, at);
		/* A PVM host's processor has no state but what begin() sets. */
		if (mem_flush(m) || (!g->cpu.is_pvm && vcpu_restore(&g->cpu)))
			return err_set(e, ERR_SYSTEM, "the page tables could not be put back");
		/* The list for the editor is in a page of its own, maybe new. */
		memcpy(m->host + AT_EDITS, image() + AT_EDITS, AT_SHARED - AT_EDITS);
	}
	for (int i = 0; i < count; i++)
		put_back(m, &dirty[i]);
	if (used > end)
		madvise(m->host + end, used - end, MADV_DONTNEED);
	if (snapshot_read_books(g, e) || (!same_machine && new_machine(g, e)))
		return -1;
	return begin(g, e);
}

/* ---- verifying ---- */

static int tell_page(uint64_t at, struct err *e)
{
	return err_set(e, ERR_SYSTEM,
		"after a reset the page at %#llx of guest memory is not as in the snapshot",
		(unsigned long long)at);
}

/* Where the file has data: whatever is mapped there must show them. */
static int verify_data(const struct guest *g, struct err *e)
{
	off_t from = (off_t)IMAGE;

	while ((from = lseek(file_fd, from, SEEK_DATA)) >= 0) {
		off_t to = lseek(file_fd, from, SEEK_HOLE);

		for (; from < to; from += PAGE) {
			uint64_t at = (uint64_t)from - IMAGE;

			if (memcmp(g->mem.host + at, image() + at, PAGE) != 0)
				return tell_page(at, e);
		}
	}
	return errno == ENXIO ? 0 : err_sys(e, "read the snapshot");
}

/* What was written at any time, all over the guest's memory: nothing of it may be left. Holes of the
 * file are not touched, which would fill them. */
static int verify_written(const struct guest *g, struct err *e)
{
	static uint8_t page[PAGE];
	const struct dirty_range *written;
	int count = dirty_find(g->mem.host, g->mem.size, &written, e);

	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++)
		for (uint64_t at = written[i].start; at < written[i].end; at += PAGE) {
			bool is_in_image = at < image_size();

			if (is_in_image && pread(file_fd, page, PAGE, (off_t)(IMAGE + at)) != PAGE)
				return err_sys(e, "read the snapshot");
			if (is_in_image ? memcmp(g->mem.host + at, page, PAGE) != 0 :
					  !mem_is_zero(g->mem.host + at))
				return tell_page(at, e);
		}
	return 0;
}

/* Written again, they must be what they were read from. */
static int verify_books(struct guest *g, struct err *e)
{
	auto_buf struct buf books = { 0 };
	struct recipes r = recipes();
	/* New ones were made by these. */
	const struct taken taken = {
		.recipes = { .data = (char *)(uintptr_t)r.at, .len = r.count * sizeof(*r.at) },
		.recipes_count = r.count,
		.watches = { .data = (char *)(uintptr_t)r.watches,
			.len = r.watches_count * sizeof(*r.watches) },
		.watches_count = r.watches_count,
	};
	struct header *h;

	add_books(g, header()->names_count, &taken, true, &books);
	h = (struct header *)(void *)books.data;
	h->memory_size = header()->memory_size; /* a larger limit makes more room */
	h->hot_written = header()->hot_written;
	h->hot_count = header()->hot_count;
	for (size_t at = 0; at < books.len; at++)
		if ((uint8_t)books.data[at] != file[at])
			return err_set(e, ERR_SYSTEM,
				"after a reset the VMM's books are not as in the snapshot, from byte "
				"%zu of %zu on",
				at, books.len);
	return 0;
}

int snapshot_verify(struct guest *g, struct err *e)
{
	return verify_books(g, e) || verify_data(g, e) || verify_written(g, e) ? -1 : 0;
}
