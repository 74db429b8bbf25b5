#include "vmm/trace.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/calls.h"
#include "vmm/fds.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STRING_SHOWN = 64 };

/* What the program wrote is hostile text: nothing but plain characters is shown as it is. */
static int put_string(struct guest *g, char *ret, size_t size, uint64_t address)
{
	char text[STRING_SHOWN + 1];
	int len = mem_string(&g->mem, text, address, sizeof(text));
	bool is_cut = len == -36; /* ENAMETOOLONG */
	int used;

	if (len < 0 && !is_cut)
		return snprintf(ret, size, "%#llx", (unsigned long long)address);
	len = is_cut ? STRING_SHOWN : len;
	used = snprintf(ret, size, "\"");
	for (int i = 0; i < len && (size_t)used + 8 < size; i++)
		used += text[i] >= ' ' && text[i] < 127 && text[i] != '"' && text[i] != '\\' ?
				snprintf(ret + used, size - (size_t)used, "%c", text[i]) :
				snprintf(ret + used, size - (size_t)used, "\\x%02x",
					(unsigned char)text[i]);
	return used + snprintf(ret + used, size - (size_t)used, is_cut ? "\"..." : "\"");
}

static int put_argument(struct guest *g, char *ret, size_t size, char kind, uint64_t value)
{
	switch (kind) {
	case 's':
		return put_string(g, ret, size, value);
	case 'f':
		if ((int)value == -100)
			return snprintf(ret, size, "AT_FDCWD");
		return snprintf(ret, size, "%d", (int)value);
	case 'd':
		return snprintf(ret, size, "%lld", (long long)value);
	case 'o':
		return snprintf(ret, size, "0%llo", (unsigned long long)value);
	default:
		return value ? snprintf(ret, size, "%#llx", (unsigned long long)value) :
			       snprintf(ret, size, "%s", kind == 'p' ? "NULL" : "0");
	}
}

void trace_call(struct guest *g, const struct call *call, int64_t result)
{
	const struct call_row *row = call_find(call->number);
	const char *kinds = row ? row->arguments : "xxxxxx";
	char line[1024];
	size_t used;

	used = (size_t)snprintf(line, sizeof(line), "[%d] ", guest_thread(g)->tid);
	used += row ? (size_t)snprintf(line + used, sizeof(line) - used, "%s(", row->name) :
		      (size_t)snprintf(line + used, sizeof(line) - used, "call_%llu(",
			      (unsigned long long)call->number);
	for (int i = 0; i < 6 && kinds[i]; i++) {
		if (i)
			used += (size_t)snprintf(line + used, sizeof(line) - used, ", ");
		used += (size_t)put_argument(
			g, line + used, sizeof(line) - used, kinds[i], call->a[i]);
	}
	if (result == CALL_SET_REGISTERS)
		used += (size_t)snprintf(line + used, sizeof(line) - used, ") = ?\n");
	else if (result < 0 && result > -4096)
		used += (size_t)snprintf(line + used, sizeof(line) - used, ") = -1 %s (%s)\n",
			strerrorname_np((int)-result), strerror((int)-result));
	else
		used += (size_t)snprintf(
			line + used, sizeof(line) - used, ") = %lld\n", (long long)result);
	if (fds_kind(2) == FD_PLAIN)
		(void)!write(2, line, used);
}
