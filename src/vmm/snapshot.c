#include "vmm/snapshot.h"

#include "base/buf.h"
#include "base/large.h"
#include "base/own.h"
#include "vmm/dirty.h"
#include "vmm/put_back.h"
#include "vmm/recipe.h"
#include "vmm/snapshot_inner.h"
#include "vmm/spare.h"
#include "vmm/stub/layout.h"
#include "vmm/tables.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "wire/vmm_start.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* More entries than this take longer to edit than a new machine takes to make. */
enum {
	EDITS_WORTH = 100,
	REMAPS_WORTH = 256,
	TABLES_LOW_END = AT_GDT,
};

/* The file, mapped for reading: header, books and image. */
static const uint8_t *file;
static int file_fd = -1;
static const char **start_words; /* in it */

/* ---- loading ---- */

const struct header *snapshot_header(void)
{
	return (const struct header *)(const void *)file;
}

const uint8_t *snapshot_image(void)
{
	return file + IMAGE;
}

uint64_t snapshot_image_size(void)
{
	return (uint64_t)snapshot_header()->next_chunk * CHUNK;
}

/* At the boundary of a large page, since it may have some. */
static int map_file(int fd, struct err *e)
{
	struct stat status;
	void *map;

	if (fstat(fd, &status) || (uint64_t)status.st_size < IMAGE)
		return err_set(e, ERR_SYSTEM, "the snapshot is cut short");
	map = large_map(fd, (uint64_t)status.st_size, PROT_READ);
	if (!map)
		return err_sys(e, "map the snapshot");
	file_fd = fd;
	return snapshot_use(map, (uint64_t)status.st_size, e);
}

int snapshot_fd(void)
{
	return file_fd;
}

int snapshot_use(const uint8_t *bytes, uint64_t size, struct err *e)
{
	if (!snapshot_is_sound(bytes, size))
		return err_set(e, ERR_SYSTEM, "this is not a snapshot of this version");
	file = bytes;
	return 0;
}

struct recipes snapshot_recipes(void)
{
	const uint8_t *at = file + sizeof(struct header);

	return (struct recipes){
		.at = (const struct recipe *)(const void *)at,
		.count = snapshot_header()->recipes_count,
		.watches = (const struct epoll_watch *)(const void
				*)(at + snapshot_header()->recipes_count * sizeof(struct recipe)),
		.watches_count = snapshot_header()->watches_count,
	};
}

int snapshot_make_descriptors(struct err *e)
{
	struct recipes r = snapshot_recipes();

	return recipe_make(&r, e);
}

static const uint8_t *read_threads(struct guest *g, const uint8_t *at)
{
	for (int i = 0; i < g->threads_top; i++) {
		g->threads[i].used = false;
		g->threads[i].polls_count = 0;
	}
	for (uint32_t i = 0; i < snapshot_header()->threads_count; i++) {
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
	g->threads_used = (int)snapshot_header()->threads_count;
	g->current = snapshot_header()->current;
	return at;
}

/* Everything that the VMM itself keeps about the guest. */
int snapshot_read_books(struct guest *g, struct err *e)
{
	const struct header *h = snapshot_header();
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
	const struct header *h = snapshot_header();
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

/* What a run will write is there before it does so. Spare memory may be more than that, but never much of what the run
 * may have. */
static int fetch(struct guest *g, bool for_one_run, struct err *e)
{
	const struct spare_image image = {
		.bytes = snapshot_image(),
		.hot = (const struct hot_range *)(const void *)(file + HOT_AT),
		.hot_count = snapshot_header()->hot_count,
	};

	if (for_one_run && spare_take(&g->mem, &image, (uint32_t)(g->memory_bytes / 16 / CHUNK), e))
		return -1;
	hot_fetch(&g->mem, image.hot, image.hot_count);
	return 0;
}

int snapshot_open(struct guest *g, int fd, uint64_t memory_size, struct err *e)
{
	if (map_file(fd, e))
		return -1;
	g->cpu.is_pvm = snapshot_header()->is_pvm;
	if (memory_size < snapshot_header()->memory_size)
		memory_size = snapshot_header()->memory_size;
	if (mem_open(&g->mem, memory_size, e))
		return -1;
	if (snapshot_read_books(g, e))
		return -1;
	find_words();
	tick_set_ns_per_tsc_32(snapshot_header()->ns_per_tsc_32);
	processor_load_features(snapshot_header()->features);
	return map_image(g, 0, snapshot_image_size(), e);
}

int snapshot_begin(struct guest *g, bool for_one_run, struct err *e)
{
	if (!for_one_run)
		dirty_map_no_more_than_touched(g->mem.host, snapshot_image_size());
	if (fetch(g, for_one_run, e))
		return -1;
	return new_machine(g, e) || snapshot_make_descriptors(e) || begin(g, e) ? -1 : 0;
}

/* ---- learning what is used ---- */

int snapshot_watch_use(struct guest *g, int fd, struct err *e)
{
	if (map_file(fd, e) || snapshot_read_books(g, e) ||
		map_image(g, 0, snapshot_image_size(), e))
		return -1;
	return new_machine(g, e) || begin(g, e) ? -1 : 0;
}

int snapshot_write_use(struct guest *g, bool stays, struct err *e)
{
	static struct hot_range ranges[HOT_RANGES_MAX];
	uint32_t count;

	if (hot_learn(&g->mem, snapshot_image_size(), ranges, &count, e))
		return -1;
	if (pwrite(file_fd, ranges, HOT_SIZE, (off_t)HOT_AT) != HOT_SIZE ||
		pwrite(file_fd, &count, sizeof(count), offsetof(struct header, hot_count)) !=
			sizeof(count))
		return err_sys(e, "write what the snapshot's program uses");
	if (stays)
		hot_join(&g->mem, file_fd, IMAGE, snapshot_image_size());
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
	const uint64_t *then = (const uint64_t *)(const void *)(snapshot_image() + physical);
	unsigned count = 0;

	for (unsigned i = 0; i < PAGE / 8; i++)
		count += now[i] != then[i] && now[i] & 1;
	return count;
}

static void reset_table(struct mem *m, uint64_t physical)
{
	uint64_t *now = (uint64_t *)(void *)(m->host + physical);
	const uint64_t *then = (const uint64_t *)(const void *)(snapshot_image() + physical);

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
	uint64_t end = snapshot_image_size();

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

/* What the processor and the host know by its place. */
static bool stays(const void *context, uint64_t at)
{
	return at < LOW_END || is_table(context, at);
}

int snapshot_reset(struct guest *g, struct err *e)
{
	struct mem *m = &g->mem;
	uint64_t end = snapshot_image_size();
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
		       m->extra_tables_count == snapshot_header()->extra_tables_count &&
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
		memcpy(m->host + AT_EDITS, snapshot_image() + AT_EDITS, AT_SHARED - AT_EDITS);
	}
	put_back(m->host, snapshot_image(), dirty, count, stays, m);
	spare_reset(m, snapshot_image());
	if (used > end)
		madvise(m->host + end, used - end, MADV_DONTNEED);
	if (snapshot_read_books(g, e) || (!same_machine && new_machine(g, e)))
		return -1;
	return begin(g, e);
}
