#include "vmm/elf.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/stub/layout.h"
#include "wire/vmm_start.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define STACK_TOP    0x7ff000000000UL
#define STACK_SIZE   (8UL << 20)
#define PROGRAM_BASE 0x550000000000UL
#define HEAP_AHEAD   (1UL << 20)

enum { HEADERS_MAX = 64, SCRIPTS_MAX = 2, WORDS_MAX = 65536, AUX_WORDS = 44 };

/* ---- which program ---- */

static int check_file(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EACCES;
	return 0;
}

static size_t count_words(const char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	return count;
}

/* "#!interpreter argument": the argument is all that follows, as one. */
static int take_script(struct elf_program *p, unsigned depth, size_t count)
{
	char *line = p->line[depth];
	char *end = strchr(line, '\n');
	char *interpreter = line + 2;
	char *argument;
	const char **argv;
	unsigned words = 1;

	if (!end)
		return -ENOEXEC;
	*end = '\0';
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	interpreter += strspn(interpreter, " \t");
	if (!*interpreter)
		return -ENOEXEC;
	argument = strpbrk(interpreter, " \t");
	if (argument) {
		*argument++ = '\0';
		argument += strspn(argument, " \t");
	}
	if (argument && *argument)
		words = 2;
	memcpy(p->scripts[depth], p->path, sizeof(p->path));
	argv = xalloc((count + words + 2) * sizeof(*argv));
	argv[0] = interpreter;
	if (words == 2)
		argv[1] = argument;
	argv[words] = p->scripts[depth];
	for (size_t i = 1; i <= count; i++) /* its own name is replaced; NULL is copied */
		argv[words + i] = count ? p->argv[i] : NULL;
	free(p->argv);
	p->argv = argv;
	snprintf(p->path, sizeof(p->path), "%s", interpreter);
	return 0;
}

/* Told before the old program is gone: who tries to start another machine's goes on. */
static bool is_ours(const char *head, size_t size)
{
	Elf64_Ehdr header;

	if (size < sizeof(header))
		return false;
	memcpy(&header, head, sizeof(header));
	return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
	       header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64 &&
	       (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

/* -1 with errno. A descriptor is copied: what is the caller's stays so. */
static int open_program(const char *path, int fd)
{
	return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, VMM_OWN_FDS) :
			 open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static int check_rights(const struct elf_program *p)
{
	struct stat status;

	if (p->fd < 0)
		return faccessat(AT_FDCWD, p->path, X_OK, AT_EACCESS) ? -errno : 0;
	return fstat(p->fd, &status) || !(status.st_mode & 0111) ? -EACCES : 0;
}

int elf_resolve(const char *path, const char *const *argv, struct elf_program *p)
{
	return elf_resolve_fd(-1, path, argv, p);
}

int elf_resolve_fd(int program_fd, const char *path, const char *const *argv, struct elf_program *p)
{
	size_t count = count_words(argv);

	*p = (struct elf_program){ .fd = program_fd };
	p->argv = xalloc((count + 2) * sizeof(*p->argv));
	memcpy(p->argv, argv, count * sizeof(*argv));
	if (strlen(path) >= sizeof(p->path))
		return -ENAMETOOLONG;
	memcpy(p->path, path, strlen(path) + 1);
	for (unsigned depth = 0;; depth++) {
		auto_close int fd = open_program(p->path, p->fd);
		char head[256] = { 0 };
		ssize_t n;
		int result;

		if (fd < 0)
			return -errno;
		result = check_file(fd);
		if (result == 0)
			result = check_rights(p);
		if (result)
			return result;
		n = pread(fd, head, sizeof(head) - 1, 0);
		if (n < 0)
			return -errno;
		if (n < 2 || memcmp(head, "#!", 2) != 0)
			return is_ours(head, (size_t)n) ? 0 : -ENOEXEC;
		if (depth == SCRIPTS_MAX)
			return -ELOOP;
		memcpy(p->line[depth], head, sizeof(head));
		p->fd = -1; /* its interpreter has a name */
		result = take_script(p, depth, count_words(p->argv));
		if (result)
			return result;
	}
}

void elf_program_close(struct elf_program *p)
{
	free(p->argv);
	p->argv = NULL;
}

/* ---- loading ---- */

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr programs[HEADERS_MAX];
	uint64_t base;
	uint64_t end;
	char interpreter[PATH_SIZE];
};

static unsigned protection_of(const Elf64_Phdr *p)
{
	return (p->p_flags & PF_R ? PROT_READ : 0U) | (p->p_flags & PF_W ? PROT_WRITE : 0U) |
	       (p->p_flags & PF_X ? PROT_EXEC : 0U);
}

static int read_image(int fd, struct image *i)
{
	size_t size;

	if (pread(fd, &i->header, sizeof(i->header), 0) != sizeof(i->header) ||
		memcmp(i->header.e_ident, ELFMAG, SELFMAG) != 0 ||
		i->header.e_ident[EI_CLASS] != ELFCLASS64 || i->header.e_machine != EM_X86_64 ||
		(i->header.e_type != ET_EXEC && i->header.e_type != ET_DYN) ||
		i->header.e_phentsize != sizeof(Elf64_Phdr) || i->header.e_phnum > HEADERS_MAX)
		return -ENOEXEC;
	size = i->header.e_phnum * sizeof(Elf64_Phdr);
	if (pread(fd, i->programs, size, (off_t)i->header.e_phoff) != (ssize_t)size)
		return -ENOEXEC;
	for (unsigned k = 0; k < i->header.e_phnum; k++) {
		const Elf64_Phdr *p = &i->programs[k];

		if (p->p_type == PT_INTERP) {
			if (p->p_filesz >= sizeof(i->interpreter) || p->p_filesz < 2 ||
				pread(fd, i->interpreter, p->p_filesz, (off_t)p->p_offset) !=
					(ssize_t)p->p_filesz)
				return -ENOEXEC;
			i->interpreter[p->p_filesz] = '\0';
		}
		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_vaddr + p->p_memsz < p->p_vaddr || p->p_vaddr + p->p_memsz > ADDRESS_END ||
			p->p_filesz > p->p_memsz || p->p_vaddr % PAGE != p->p_offset % PAGE)
			return -ENOEXEC;
		if (p->p_vaddr + p->p_memsz > i->end)
			i->end = PAGE_UP(p->p_vaddr + p->p_memsz);
	}
	return i->end ? 0 : -ENOEXEC;
}

static int load_segment(struct guest *g, int fd, uint64_t base, const Elf64_Phdr *p, uint32_t name)
{
	uint64_t start = base + PAGE_DOWN(p->p_vaddr);
	uint64_t file_end = base + p->p_vaddr + p->p_filesz;
	uint64_t end = base + PAGE_UP(p->p_vaddr + p->p_memsz);
	struct area area = {
		.start = start,
		.end = PAGE_UP(file_end),
		.offset = PAGE_DOWN(p->p_offset),
		.name = name,
		.kind = AREA_FILE,
		.protection = (uint8_t)protection_of(p),
	};
	int result = 0;

	if (start < LOW_END)
		return -ENOMEM;
	if (p->p_filesz)
		result = mem_map_file(&g->mem, &area, fd);
	if (result)
		return result;
	if (p->p_filesz && p->p_memsz > p->p_filesz && p->p_flags & PF_W) {
		/* The rest of the last page is not the file's. */
		static const uint8_t zeros[PAGE];
		uint64_t left = PAGE_UP(file_end) - file_end;

		result = mem_write(&g->mem, file_end, zeros, left);
		if (result)
			return result;
	}
	area.start = p->p_filesz ? PAGE_UP(file_end) : start;
	area.end = end;
	area.kind = AREA_ANONYMOUS;
	area.name = 0;
	area.offset = 0;
	return area.start < area.end ? mem_map(&g->mem, &area) : 0;
}

static int load_image(
	struct guest *g, const char *path, int program_fd, struct image *i, bool is_interpreter)
{
	auto_close int fd = open_program(path, program_fd);
	uint32_t name = mem_name(&g->mem, path);
	int result;
	uint32_t random = 0;

	if (fd < 0)
		return -errno;
	result = read_image(fd, i);
	if (result)
		return result;
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	if (i->header.e_type == ET_DYN)
		i->base = is_interpreter ?
				  mem_place(&g->mem, 0, i->end, PROT_READ | PROT_EXEC, true) :
				  PROGRAM_BASE + (uint64_t)(random & 0xffffff) * PAGE;
	if ((i->header.e_type == ET_DYN && !i->base) || i->base + i->end > ADDRESS_END - HEAP_AHEAD)
		return -ENOMEM;
	for (unsigned k = 0; k < i->header.e_phnum && result == 0; k++)
		if (i->programs[k].p_type == PT_LOAD)
			result = load_segment(g, fd, i->base, &i->programs[k], name);
	return result;
}

/* ---- the stack ---- */

struct stack {
	struct guest *g;
	uint64_t at;
	int failed;
};

static uint64_t push(struct stack *s, const void *data, size_t size)
{
	s->at -= size;
	if (s->at < STACK_TOP - STACK_SIZE / 2)
		s->failed = -E2BIG;
	else if (mem_write(&s->g->mem, s->at, data, size))
		s->failed = -EFAULT;
	return s->at;
}

static uint64_t push_text(struct stack *s, const char *text)
{
	return push(s, text, strlen(text) + 1);
}

static uint64_t hardware(void)
{
	unsigned a;
	unsigned b;
	unsigned c;
	unsigned d;

	return __get_cpuid(1, &a, &b, &c, &d) ? d : 0;
}

/* argc, argv, environment and what the kernel tells besides, as every program finds them. */
static int put_stack(struct guest *g, const struct image *main, uint64_t interpreter_base,
	const char *path, const char *const *argv, const char *const *environment)
{
	struct stack s = { .g = g, .at = STACK_TOP };
	size_t argc = count_words(argv);
	size_t envc = count_words(environment);
	size_t words = 0;
	auto_free uint64_t *all = NULL;
	uint8_t random[16];
	uint64_t name;
	uint64_t platform;
	uint64_t random_at;

	if (argc + envc > WORDS_MAX)
		return -E2BIG;
	all = xalloc((argc + envc + 3 + AUX_WORDS) * sizeof(*all));
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	name = push_text(&s, path);
	platform = push_text(&s, "x86_64");
	random_at = push(&s, random, sizeof(random));
	all[words++] = argc;
	for (size_t i = 0; i < argc; i++)
		all[words++] = push_text(&s, argv[i]);
	all[words++] = 0;
	for (size_t i = 0; i < envc; i++)
		all[words++] = push_text(&s, environment[i]);
	all[words++] = 0;
	{
		const uint64_t aux[] = {
			AT_PHDR,
			main->base + main->header.e_phoff,
			AT_PHENT,
			sizeof(Elf64_Phdr),
			AT_PHNUM,
			main->header.e_phnum,
			AT_PAGESZ,
			PAGE,
			AT_BASE,
			interpreter_base,
			AT_FLAGS,
			0,
			AT_ENTRY,
			main->base + main->header.e_entry,
			AT_UID,
			1000,
			AT_EUID,
			1000,
			AT_GID,
			1000,
			AT_EGID,
			1000,
			AT_SECURE,
			0,
			AT_CLKTCK,
			100,
			AT_HWCAP,
			hardware(),
			AT_HWCAP2,
			0,
			AT_PLATFORM,
			platform,
			AT_RANDOM,
			random_at,
			AT_EXECFN,
			name,
			AT_MINSIGSTKSZ,
			2048,
			AT_NULL,
			0,
		};

		_Static_assert(COUNT(aux) <= AUX_WORDS, "room for all");
		memcpy(&all[words], aux, sizeof(aux));
		words += COUNT(aux);
	}
	s.at = ((s.at - words * 8) & ~15UL) + words * 8;
	push(&s, all, words * 8);
	guest_thread(g)->registers.general.rsp = s.at;
	return s.failed;
}

/* Where the program headers are in memory: in the segment that holds them. */
static uint64_t headers_at(const struct image *i)
{
	for (unsigned k = 0; k < i->header.e_phnum; k++) {
		const Elf64_Phdr *p = &i->programs[k];

		if (p->p_type == PT_LOAD && i->header.e_phoff >= p->p_offset &&
			i->header.e_phoff < p->p_offset + p->p_filesz)
			return i->base + p->p_vaddr + (i->header.e_phoff - p->p_offset);
	}
	return i->base + i->header.e_phoff;
}

static int put_heap(struct guest *g, const struct image *i)
{
	uint64_t start = i->base + i->end;
	struct area heap = {
		.start = start,
		.end = start + HEAP_AHEAD,
		.kind = AREA_HEAP,
		.protection = PROT_READ | PROT_WRITE,
	};
	volatile struct shared *s = guest_shared(g);

	g->mem.heap_start = start;
	s->heap_start = s->heap = start;
	s->heap_end = heap.end;
	return mem_map(&g->mem, &heap);
}

int elf_load(struct guest *g, const struct elf_program *p, const char *const *environment)
{
	static struct image main;
	static struct image interpreter;
	struct thread *t = guest_thread(g);
	const struct area stack = {
		.start = STACK_TOP - STACK_SIZE,
		.end = STACK_TOP,
		.kind = AREA_STACK,
		.protection = PROT_READ | PROT_WRITE,
	};
	int result;

	memset(&main, 0, sizeof(main));
	memset(&interpreter, 0, sizeof(interpreter));
	t->registers = (struct registers){ 0 };
	result = load_image(g, p->path, p->fd, &main, false);
	if (result == 0 && main.interpreter[0])
		result = load_image(g, main.interpreter, -1, &interpreter, true);
	if (result == 0)
		result = mem_map(&g->mem, &stack);
	if (result == 0)
		result = put_heap(g, &main);
	if (result)
		return result;
	main.header.e_phoff = headers_at(&main) - main.base;
	result = put_stack(g, &main, interpreter.base, p->path, p->argv, environment);
	t->registers.general.rip = main.interpreter[0] ?
					   interpreter.base + interpreter.header.e_entry :
					   main.base + main.header.e_entry;
	t->registers.general.rflags = 0x202;
	return result;
}
