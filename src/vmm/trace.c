#include "vmm/trace.h"

#include "vmm/calls.h"
#include "vmm/fds.h"
#include "vmm/trace_words.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STRING_SHOWN = 255, DATA_SHOWN = 32, WORDS_SHOWN = 32 };

static void put_address(struct line *l, uint64_t value)
{
	if (value)
		line_put(l, "%#llx", (unsigned long long)value);
	else
		line_put(l, "NULL");
}

static void put_string(struct guest *g, struct line *l, uint64_t address)
{
	char text[STRING_SHOWN + 1];
	int len = mem_string(&g->mem, text, address, sizeof(text));
	bool is_cut = len == -ENAMETOOLONG;

	if (len < 0 && !is_cut)
		put_address(l, address);
	else
		line_quote(l, text, is_cut ? STRING_SHOWN : (size_t)len, is_cut);
}

static void put_data(struct guest *g, struct line *l, uint64_t address, uint64_t len)
{
	char data[DATA_SHOWN];
	size_t shown = len < DATA_SHOWN ? (size_t)len : DATA_SHOWN;

	if (mem_read(&g->mem, data, address, shown))
		put_address(l, address);
	else
		line_quote(l, data, shown, len > DATA_SHOWN);
}

/* The words of a command line. */
static void put_words(struct guest *g, struct line *l, uint64_t address)
{
	uint64_t word;

	if (mem_read(&g->mem, &word, address, sizeof(word))) {
		put_address(l, address);
		return;
	}
	line_put(l, "[");
	for (int i = 0; word; i++) {
		line_put(l, "%s", i ? ", " : "");
		if (i == WORDS_SHOWN) {
			line_put(l, "...");
			break;
		}
		put_string(g, l, word);
		address += sizeof(word);
		if (mem_read(&g->mem, &word, address, sizeof(word)))
			break;
	}
	line_put(l, "]");
}

/* fcntl's third argument goes by the second. 0: there is none. */
static char kind_for(int command)
{
	switch (command) {
	case F_GETFD:
	case F_GETFL:
	case F_GETPIPE_SZ:
	case F_GET_SEALS:
		return 0;
	case F_SETFD:
		return 'C';
	case F_SETFL:
		return 'O';
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_SETPIPE_SZ:
		return 'i';
	default:
		return 'p';
	}
}

/* As calls.h has it, but for those that depend on the argument before them. */
static char kind_of(const char *kinds, int i, const struct call *call)
{
	if (kinds[i] == 'm')
		return call->a[i - 1] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? 'o' : 0;
	return kinds[i] == 'g' ? kind_for((int)call->a[i - 1]) : kinds[i];
}

static void put_argument(
	struct guest *g, struct line *l, char kind, const uint64_t *a, int64_t result)
{
	switch (kind) {
	case 's':
		put_string(g, l, *a);
		break;
	case 'w':
		put_data(g, l, *a, a[1]);
		break;
	case 'r':
		/* Of a message more may be told than there was room for. */
		if (result >= 0)
			put_data(g, l, *a, (uint64_t)result < a[1] ? (uint64_t)result : a[1]);
		else
			put_address(l, *a);
		break;
	case 'v':
		put_words(g, l, *a);
		break;
	case 'f':
		if ((int)*a == AT_FDCWD)
			line_put(l, "AT_FDCWD");
		else
			line_put(l, "%d", (int)*a);
		break;
	case 'i':
		line_put(l, "%d", (int)*a);
		break;
	case 'd':
		line_put(l, "%lld", (long long)*a);
		break;
	case 'o':
		line_put(l, *a ? "0%llo" : "%llo", (unsigned long long)*a);
		break;
	case 'p':
		put_address(l, *a);
		break;
	default:
		if (!line_names(l, kind, *a))
			line_put(l, *a ? "%#llx" : "%llu", (unsigned long long)*a);
	}
}

static void put_result(struct line *l, uint64_t number, int64_t result)
{
	if (result == CALL_SET_REGISTERS)
		line_put(l, "?");
	else if (result < 0 && result > -4096)
		line_put(l, "-1 %s (%s)", strerrorname_np((int)-result), strerror((int)-result));
	else if (number == SYS_mmap || number == SYS_mremap || number == SYS_brk)
		line_put(l, "%#llx", (unsigned long long)result);
	else
		line_put(l, "%lld", (long long)result);
}

static void write_line(struct line *l)
{
	if (l->used == sizeof(l->text) - 1)
		l->used--;
	line_put(l, "\n");
	if (fds_kind(2) == FD_PLAIN)
		(void)!write(2, l->text, l->used);
}

void trace_call(struct guest *g, const struct call *call, int64_t result)
{
	const struct call_row *row = call_find(call->number);
	const char *kinds = row ? row->arguments : "xxxxxx";
	struct line l = { .used = 0 };

	line_put(&l, "[%d] ", guest_thread(g)->tid);
	if (row)
		line_put(&l, "%s(", row->name);
	else
		line_put(&l, "call_%llu(", (unsigned long long)call->number);
	for (int i = 0; i < 6 && kinds[i] && kind_of(kinds, i, call); i++) {
		line_put(&l, "%s", i ? ", " : "");
		put_argument(g, &l, kind_of(kinds, i, call), &call->a[i], result);
	}
	line_put(&l, ") = ");
	put_result(&l, call->number, result);
	write_line(&l);
}

void trace_start(struct guest *g)
{
	struct line l = { .used = 0 };
	int count = 0;

	line_put(&l, "[%d] execve(", guest_thread(g)->tid);
	line_quote(&l, g->exe, strlen(g->exe), false);
	line_put(&l, ", [");
	for (int i = 0; i <= WORDS_SHOWN && g->argv[i]; i++) {
		size_t len = strlen(g->argv[i]);
		bool is_cut = len > STRING_SHOWN;

		line_put(&l, "%s", i ? ", " : "");
		if (i == WORDS_SHOWN)
			line_put(&l, "...");
		else
			line_quote(&l, g->argv[i], is_cut ? STRING_SHOWN : len, is_cut);
	}
	while (g->environment[count])
		count++;
	line_put(&l, "], /* %d vars */) = 0", count);
	write_line(&l);
}

bool trace_ends(const struct call *call)
{
	return call->number == SYS_exit_group || call->number == SYS_exit;
}
