#include "vmm/tables.h"

#include "base/own.h"
#include "vmm/stub/layout.h"
#include "vmm_stub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Accessed and dirty are set from the start, so that the processor never writes an entry. */
#define PRESENT    0x01ULL
#define WRITABLE   0x02ULL
#define USER       0x04ULL
#define USED       0x60ULL
#define LEAF       0x80ULL
#define NO_EXECUTE (1ULL << 63)
#define ADDRESS    0x000ffffffffff000ULL
#define SUPERVISOR (PRESENT | WRITABLE | USED)
#define TO_TABLE   (PRESENT | WRITABLE | USER | USED)
#define PLAIN      (PRESENT | WRITABLE | USER | USED | NO_EXECUTE)

/* Page tables beyond the first megabyte of them are seen here, by the editor alone. */
#define EXTRA_TABLES 0x7fff80000000ULL
_Static_assert(EXTRA_TABLES >= USER_END, "no program can map anything there");
#define PAGES (CHUNK / PAGE)

/* A memory slot is added when chunks run out: KVM keeps books for all of a slot at once. */
#define SLOT_SIZE (128UL << 20)

static uint64_t *at(const struct mem *m, uint64_t physical)
{
	return (uint64_t *)(void *)(m->host + physical);
}

/* ---- the lowest 2 MiB ---- */

static void put_pages(const struct mem *m, uint64_t start, uint64_t end, uint64_t flags)
{
	for (uint64_t page = start; page < end; page += PAGE)
		at(m, AT_PT)[page / PAGE] = page | flags;
}

static void put_descriptors(const struct mem *m)
{
	uint64_t *gdt = at(m, AT_GDT);
	uint64_t limit = 0x67 + 8193;

	gdt[2] = 0x00af9b000000ffff; /* kernel code */
	gdt[3] = 0x00cf93000000ffff; /* kernel data */
	/* SYSRET counts from gdt[4]. That is no segment, so that there are no programs of 32 bits:
	 * some processors would take their SYSCALL to another place than our stub. */
	gdt[5] = 0x00cff3000000ffff; /* user data */
	gdt[6] = 0x00affb000000ffff; /* user code */
	gdt[8] = (limit & 0xffff) | ((uint64_t)AT_TSS << 16) | (0x8bULL << 40) |
		 ((limit >> 16 & 15) << 48);
}

static void put_task_state(const struct mem *m, bool is_pvm)
{
	uint8_t *tss = m->host + AT_TSS;
	uint64_t stack = AT_KERNEL_STACK_TOP;
	uint16_t map = 0x68;

	memcpy(tss + 4, &stack, sizeof(stack));
	for (int i = 0; i < 7; i++)
		memcpy(tss + 0x24 + 8UL * (unsigned)i, &stack, sizeof(stack));
	memcpy(tss + 0x66, &map, sizeof(map));
	memset(tss + map, 0xff, 8193);
	/* Four ports, since the gate's OUT has four bytes. */
	if (is_pvm)
		tss[map + GATE_PORT / 8] = 0xf0;
}

/* Handlers: OUT to the vector's port. They never return: the VMM sets all registers. */
static void put_handlers(const struct mem *m)
{
	/* 1: lodsq; mov %rax,%rdi; lodsq; mov %rax,(%rdi); lodsq; invlpg (%rax); dec %ecx; jnz 1b;
	 * out %eax,$EDITED_PORT */
	static const uint8_t editor[] = { 0x48, 0xad, 0x48, 0x89, 0xc7, 0x48, 0xad, 0x48, 0x89,
		0x07, 0x48, 0xad, 0x0f, 0x01, 0x38, 0xff, 0xc9, 0x75, 0xed, 0xe7, EDITED_PORT };

	for (unsigned vector = 0; vector < 32; vector++) {
		uint64_t handler = AT_HANDLERS + 16 * vector;
		/* A program may use INT3 and INTO. */
		uint64_t type = vector == 3 || vector == 4 ? 0xee : 0x8e;
		uint64_t *gate = at(m, AT_IDT + 16 * vector);

		/* On a stack of their own (IST 1), wherever RSP points: in ring 0 it may be the
		 * program's. */
		gate[0] = (handler & 0xffff) | (0x10ULL << 16) | (1ULL << 32) | (type << 40) |
			  (handler >> 16 << 48);
		gate[1] = 0;
		m->host[handler] = 0xe7;
		m->host[handler + 1] = (uint8_t)(FAULT_PORT + vector);
	}
	memcpy(m->host + AT_EDITOR, editor, sizeof(editor));
}

void tables_init(struct mem *m, bool is_pvm)
{
	static const uint8_t gate_pvm[] = { 0xe7, GATE_PORT, 0xff, 0xe1 };   /* jmp *%rcx */
	static const uint8_t gate[] = { 0xe7, GATE_PORT, 0x48, 0x0f, 0x07 }; /* sysretq */
	uint64_t stubs_data = is_pvm ? PLAIN : SUPERVISOR | NO_EXECUTE;

	at(m, AT_PML4)[0] = AT_PDPT | TO_TABLE;
	at(m, AT_PDPT)[0] = AT_PD | TO_TABLE;
	at(m, AT_PD)[0] = AT_PT | TO_TABLE;
	put_pages(m, AT_PML4, AT_GDT, SUPERVISOR | NO_EXECUTE);
	/* Descriptors are marked as used already: not even the processor writes them. */
	put_pages(m, AT_GDT, AT_GATE, PRESENT | USED | NO_EXECUTE);
	put_pages(m, AT_GATE, AT_HANDLERS, PRESENT | USED | (is_pvm ? USER : 0));
	put_pages(m, AT_HANDLERS, AT_STUB, PRESENT | USED);
	put_pages(m, AT_STUB, AT_STUB_END, PRESENT | USED | (is_pvm ? USER : 0));
	put_pages(m, AT_STUB_DATA, AT_EDITS, stubs_data);
	put_pages(m, AT_EDITS, AT_SHARED, SUPERVISOR | NO_EXECUTE);
	put_pages(m, AT_SHARED, AT_OUT + AT_OUT_SIZE, stubs_data);
	put_pages(m, AT_TABLES, LOW_END, SUPERVISOR | NO_EXECUTE);
	put_descriptors(m);
	put_task_state(m, is_pvm);
	put_handlers(m);
	memcpy(m->host + AT_STUB, vmm_stub, sizeof(vmm_stub));
	if (is_pvm)
		memcpy(m->host + AT_GATE, gate_pvm, sizeof(gate_pvm));
	else
		memcpy(m->host + AT_GATE, gate, sizeof(gate));
	m->next_table = AT_TABLES;
	m->tables_end = LOW_END;
	m->next_chunk = 1;
}

/* ---- chunks and blocks ---- */

static uint32_t take_chunk(struct mem *m)
{
	uint64_t end;

	if (m->free_chunks_count)
		return m->free_chunks[--m->free_chunks_count];
	end = (m->next_chunk + 1ULL) * CHUNK;
	if (end > m->size)
		return 0;
	if (end > m->in_slots && m->cpu) {
		uint64_t size =
			m->size - m->in_slots < SLOT_SIZE ? m->size - m->in_slots : SLOT_SIZE;
		struct err ignored;

		if (vcpu_add_memory(m->cpu, m->in_slots, size, m->host + m->in_slots, &ignored))
			return 0;
		m->in_slots += size;
	}
	return m->next_chunk++;
}

/* Where the block is, or would be. */
static uint32_t search(const struct mem *m, uint64_t number)
{
	uint32_t low = 0;
	uint32_t high = m->blocks_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (m->blocks[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct block *tables_block(const struct mem *m, uint64_t address)
{
	uint32_t i = search(m, address / CHUNK);

	return i < m->blocks_count && m->blocks[i].number == address / CHUNK ? &m->blocks[i] : NULL;
}

struct block *tables_first(const struct mem *m, uint64_t start, uint64_t end)
{
	uint32_t i = search(m, start / CHUNK);

	return i < m->blocks_count && m->blocks[i].number * CHUNK < end ? &m->blocks[i] : NULL;
}

struct block *tables_bind(struct mem *m, uint64_t address)
{
	uint32_t i = search(m, address / CHUNK);
	uint32_t chunk;

	if (i < m->blocks_count && m->blocks[i].number == address / CHUNK)
		return &m->blocks[i];
	chunk = take_chunk(m);
	if (!chunk)
		return NULL;
	m->blocks = mem_grow(m->blocks, &m->blocks_room, m->blocks_count + 1, sizeof(*m->blocks));
	memmove(&m->blocks[i + 1], &m->blocks[i], (m->blocks_count - i) * sizeof(*m->blocks));
	m->blocks_count++;
	m->blocks[i] = (struct block){ .number = address / CHUNK, .chunk = chunk };
	return &m->blocks[i];
}

/* ---- entries ---- */

static uint64_t *directory_entry(const struct mem *m, uint64_t number)
{
	uint64_t *table = at(m, AT_PML4);
	unsigned index[] = { (unsigned)(number >> 18 & 511), (unsigned)(number >> 9 & 511) };

	for (int i = 0; i < 2; i++) {
		if (!(table[index[i]] & PRESENT))
			return NULL;
		table = at(m, table[index[i]] & ADDRESS);
	}
	return &table[number & 511];
}

static void put_leaf(struct mem *m, uint64_t number, uint64_t value);

static uint64_t take_table(struct mem *m)
{
	uint64_t table;

	if (m->next_table == m->tables_end) {
		uint32_t chunk;

		/* The tables on the way to where the editor sees the new ones are among them. */
		if (m->extra_tables_count == EXTRA_TABLES_MAX)
			return 0;
		chunk = take_chunk(m);
		if (!chunk)
			return 0;
		m->next_table = chunk * CHUNK;
		m->tables_end = m->next_table + CHUNK;
		m->extra_tables[m->extra_tables_count++] = chunk;
		put_leaf(m, EXTRA_TABLES / CHUNK + m->extra_tables_count - 1,
			(uint64_t)chunk * CHUNK | SUPERVISOR | LEAF | NO_EXECUTE);
	}
	table = m->next_table;
	m->next_table += PAGE;
	memset(m->host + table, 0, PAGE);
	return table;
}

/* The entry for a block, and the tables on the way there; NULL if there are none left. */
static uint64_t *make_directory_entry(struct mem *m, uint64_t number)
{
	uint64_t *table = at(m, AT_PML4);
	unsigned index[] = { (unsigned)(number >> 18 & 511), (unsigned)(number >> 9 & 511) };

	for (int i = 0; i < 2; i++) {
		if (!(table[index[i]] & PRESENT)) {
			uint64_t next = take_table(m);

			if (!next)
				return NULL;
			table[index[i]] = next | TO_TABLE;
		}
		table = at(m, table[index[i]] & ADDRESS);
	}
	return &table[number & 511];
}

static void put_leaf(struct mem *m, uint64_t number, uint64_t value)
{
	uint64_t *entry = make_directory_entry(m, number);

	if (entry)
		*entry = value;
}

/* Where the editor finds an entry. */
static uint64_t seen_at(const struct mem *m, const uint64_t *entry)
{
	uint64_t physical = (uint64_t)((const uint8_t *)entry - m->host);

	if (physical < LOW_END)
		return physical;
	for (uint32_t i = 0; i < m->extra_tables_count; i++)
		if (m->extra_tables[i] == physical / CHUNK)
			return EXTRA_TABLES + i * CHUNK + physical % CHUNK;
	abort();
}

void tables_put(struct mem *m, uint64_t *entry, uint64_t value, uint64_t address)
{
	if (*entry == value)
		return;
	if (!(*entry & PRESENT)) {
		*entry = value;
		return;
	}
	if (!m->cpu) { /* nobody has seen it yet */
		*entry = value;
		return;
	}
	if (m->edits_count == EDITS_MAX && mem_flush(m))
		return; /* nothing will run any more: see mem_flush() */
	m->edits[m->edits_count++] = (struct edit){ seen_at(m, entry), value, address };
}

static uint64_t flags_of(const struct area *area)
{
	uint64_t flags = PRESENT | USER | USED;

	if (!(area->protection & (PROT_READ | PROT_WRITE | PROT_EXEC)))
		return 0;
	if (area->protection & PROT_WRITE)
		flags |= WRITABLE;
	if (!(area->protection & PROT_EXEC))
		flags |= NO_EXECUTE;
	return flags;
}

struct wanted {
	uint64_t flags[PAGES]; /* 0 = must be absent */
	uint64_t all;          /* what all pages have in common; 0: nothing */
};

/* Where a block holds plain data only, what lies between them may be touched too: one large entry
 * then serves it all, and what is mapped there later costs nothing. Reserved pages (PROT_NONE) are
 * never touched. */
static void want(const struct mem *m, uint64_t number, struct wanted *ret)
{
	uint64_t start = number * CHUNK;
	uint64_t covered = 0;
	bool all_plain = true;
	bool all_same = true;
	uint64_t first = 0;

	memset(ret->flags, 0, sizeof(ret->flags));
	for (uint32_t i = mem_first(m, start); i < m->areas_count; i++) {
		const struct area *a = &m->areas[i];
		uint64_t from = a->start > start ? a->start : start;
		uint64_t to = a->end < start + CHUNK ? a->end : start + CHUNK;
		uint64_t flags = flags_of(a);

		if (a->start >= start + CHUNK)
			break;
		all_plain = all_plain && flags == PLAIN && a->kind != AREA_SHARED;
		first = covered ? first : flags;
		all_same = all_same && flags == first;
		covered += to - from;
		for (uint64_t page = from; page < to; page += PAGE)
			ret->flags[page % CHUNK / PAGE] = flags;
	}
	ret->all = 0;
	if (covered && all_plain)
		ret->all = PLAIN;
	else if (covered == CHUNK && all_same)
		ret->all = first;
}

/* A new table; only the pages from `first` to before `end` are filled in. */
static int fill_table(struct mem *m, struct block *b, const struct wanted *wanted, unsigned first,
	unsigned end, uint64_t *ret)
{
	uint64_t *table;

	b->table = take_table(m);
	if (!b->table)
		return -ENOMEM;
	table = at(m, b->table);
	for (unsigned i = first; i < end; i++)
		table[i] = wanted->flags[i] ?
				   ((uint64_t)b->chunk * CHUNK + i * PAGE) | wanted->flags[i] :
				   0;
	*ret = b->table | TO_TABLE;
	return 0;
}

static int sync_block(
	struct mem *m, struct block *b, uint64_t start, uint64_t end, enum tables_how how)
{
	static struct wanted wanted;
	uint64_t *entry = make_directory_entry(m, b->number);
	uint64_t base = b->number * CHUNK;
	uint64_t value;
	bool is_new;

	if (!entry)
		return -ENOMEM;
	start = start > base ? start : base;
	end = end < base + CHUNK ? end : base + CHUNK;
	is_new = !(*entry & PRESENT);
	if (is_new && how == TABLES_LAZY)
		return 0;
	want(m, b->number, &wanted);
	if (*entry & PRESENT && !(*entry & LEAF)) {
		uint64_t *table = at(m, b->table);

		/* A table stays a table: changing it back would cost more than it could save. */
		for (uint64_t a = start; a < end; a += PAGE) {
			unsigned i = (unsigned)(a % CHUNK / PAGE);
			uint64_t flags = wanted.flags[i];

			if (how == TABLES_LAZY && !(table[i] & PRESENT))
				continue;
			tables_put(m, &table[i],
				flags ? ((uint64_t)b->chunk * CHUNK + i * PAGE) | flags : 0, a);
		}
		return 0;
	}
	if (wanted.all) {
		tables_put(m, entry, (uint64_t)b->chunk * CHUNK | wanted.all | LEAF, base);
		return 0;
	}
	/* What else is in a new block is somebody's who will touch it, or not. */
	if (fill_table(m, b, &wanted, is_new ? (unsigned)((start - base) / PAGE) : 0,
		    is_new ? (unsigned)((end - base) / PAGE) : PAGES, &value))
		return -ENOMEM;
	tables_put(m, entry, value, base);
	/* The editor must have linked it before anything in it is changed again. */
	return mem_flush(m) ? -ENOMEM : 0;
}

int tables_sync(struct mem *m, uint64_t start, uint64_t end, enum tables_how how)
{
	for (uint64_t a = start; a < end;) {
		struct block *b = how == TABLES_BIND ? tables_bind(m, a) : tables_first(m, a, end);
		int result;

		if (!b)
			return how == TABLES_BIND ? -ENOMEM : 0;
		result = sync_block(m, b, start, end, how);
		if (result)
			return result;
		a = (b->number + 1) * CHUNK;
	}
	return 0;
}

void tables_unbind(struct mem *m, struct block *b)
{
	uint64_t *entry = directory_entry(m, b->number);
	uint32_t i = (uint32_t)(b - m->blocks);

	/* A table that was linked once cannot be used for anything else: a PVM host would not notice
	 * that it has changed. So it stays where it is, empty, with its block. */
	if (b->table)
		return;
	if (entry)
		tables_put(m, entry, 0, b->number * CHUNK);
	m->free_chunks = mem_grow(
		m->free_chunks, &m->free_chunks_room, m->free_chunks_count + 1, sizeof(uint32_t));
	m->free_chunks[m->free_chunks_count++] = b->chunk;
	memmove(b, b + 1, (m->blocks_count - i - 1) * sizeof(*b));
	m->blocks_count--;
}

bool tables_allow(const struct mem *m, uint64_t address, bool to_write, bool to_execute)
{
	uint64_t *entry = directory_entry(m, address / CHUNK);

	if (!entry || !(*entry & PRESENT))
		return false;
	if (!(*entry & LEAF))
		entry = &at(m, *entry & ADDRESS)[address % CHUNK / PAGE];
	return (*entry & PRESENT) && (!to_write || *entry & WRITABLE) &&
	       (!to_execute || !(*entry & NO_EXECUTE));
}

/* ---- fewer of them ---- */

/* What may be read and executed, and nothing else, all over the block. */
static bool is_text(const struct mem *m, uint64_t number)
{
	uint64_t start = number * CHUNK;
	uint64_t reached = start;
	bool has_code = false;

	for (uint32_t i = mem_first(m, start); i < m->areas_count; i++) {
		const struct area *a = &m->areas[i];

		if (a->start >= start + CHUNK)
			break;
		if (a->start > reached || a->kind != AREA_FILE || a->protection & PROT_WRITE ||
			!(a->protection & PROT_READ))
			return false;
		has_code = has_code || a->protection & PROT_EXEC;
		reached = a->end;
	}
	return reached >= start + CHUNK && has_code;
}

void tables_join(struct mem *m)
{
	for (uint32_t i = 0; i < m->blocks_count; i++) {
		struct block *b = &m->blocks[i];
		uint64_t *entry = directory_entry(m, b->number);

		if (!b->table || !entry || !is_text(m, b->number))
			continue;
		*entry = (uint64_t)b->chunk * CHUNK | PRESENT | USER | USED | LEAF;
		memset(m->host + b->table, 0, PAGE);
		b->table = 0;
	}
}
