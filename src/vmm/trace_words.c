#include "vmm/trace_words.h"

#include "base/own.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void line_put(struct line *l, const char *format, ...)
{
	size_t left = sizeof(l->text) - l->used;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(l->text + l->used, left, format, args);
	va_end(args);
	if (len > 0)
		l->used += (size_t)len < left ? (size_t)len : left - 1;
}

/* ---- data ---- */

static void put_byte(struct line *l, uint8_t byte, bool digit_follows)
{
	static const char named[] = "\tt\nn\vv\ff\rr\"\"\\\\";
	const char *found = byte ? strchr(named, byte) : NULL;

	/* Each is at an even place, with its letter behind it. */
	if (found && (found - named) % 2 == 0)
		line_put(l, "\\%c", found[1]);
	else if (byte >= ' ' && byte < 127)
		line_put(l, "%c", byte);
	else
		line_put(l, digit_follows ? "\\%03o" : "\\%o", byte);
}

void line_quote(struct line *l, const void *data, size_t len, bool is_cut)
{
	const uint8_t *bytes = data;

	line_put(l, "\"");
	for (size_t i = 0; i < len; i++)
		put_byte(l, bytes[i], i + 1 < len && bytes[i + 1] >= '0' && bytes[i + 1] <= '9');
	line_put(l, is_cut ? "\"..." : "\"");
}

/* ---- names ---- */

/* clang-format off */
/* Where the value, masked, is this. Of each kind the first that fits takes its bits; what nobody takes is a number. */
#define ALL         0xffffffffU
#define BIT(k, x)   { (k), (uint32_t)(x), (uint32_t)(x), #x }
#define VALUE(k, x) { (k), ALL, (uint32_t)(x), #x }
#define OF(k, m, x) { (k), (uint32_t)(m), (uint32_t)(x), #x }

static const struct {
	char kind;
	uint32_t mask;
	uint32_t value;
	const char *text;
} names[] = {
	OF('O', O_ACCMODE, O_RDONLY), OF('O', O_ACCMODE, O_WRONLY), OF('O', O_ACCMODE, O_RDWR),
	BIT('O', O_CREAT), BIT('O', O_EXCL), BIT('O', O_NOCTTY), BIT('O', O_TRUNC), BIT('O', O_APPEND),
	BIT('O', O_NONBLOCK), BIT('O', O_SYNC), BIT('O', O_DSYNC), BIT('O', O_DIRECT), BIT('O', O_TMPFILE),
	BIT('O', O_DIRECTORY), BIT('O', O_NOFOLLOW), BIT('O', O_CLOEXEC), BIT('O', O_PATH), BIT('O', O_NOATIME),

	BIT('Q', O_NONBLOCK), BIT('Q', O_DIRECT), BIT('Q', O_CLOEXEC),

	VALUE('P', PROT_NONE), BIT('P', PROT_READ), BIT('P', PROT_WRITE), BIT('P', PROT_EXEC),

	OF('M', MAP_TYPE, MAP_SHARED), OF('M', MAP_TYPE, MAP_PRIVATE), OF('M', MAP_TYPE, MAP_SHARED_VALIDATE),
	BIT('M', MAP_FIXED), BIT('M', MAP_FIXED_NOREPLACE), BIT('M', MAP_ANONYMOUS), BIT('M', MAP_GROWSDOWN),
	BIT('M', MAP_DENYWRITE), BIT('M', MAP_LOCKED), BIT('M', MAP_NORESERVE), BIT('M', MAP_POPULATE),
	BIT('M', MAP_STACK), BIT('M', MAP_HUGETLB),

	VALUE('V', MADV_NORMAL), VALUE('V', MADV_RANDOM), VALUE('V', MADV_SEQUENTIAL), VALUE('V', MADV_WILLNEED),
	VALUE('V', MADV_DONTNEED), VALUE('V', MADV_FREE), VALUE('V', MADV_HUGEPAGE), VALUE('V', MADV_NOHUGEPAGE),
	VALUE('V', MADV_DONTDUMP),

	VALUE('F', F_DUPFD), VALUE('F', F_DUPFD_CLOEXEC), VALUE('F', F_GETFD), VALUE('F', F_SETFD),
	VALUE('F', F_GETFL), VALUE('F', F_SETFL), VALUE('F', F_GETLK), VALUE('F', F_SETLK), VALUE('F', F_SETLKW),
	VALUE('F', F_OFD_GETLK), VALUE('F', F_OFD_SETLK), VALUE('F', F_OFD_SETLKW), VALUE('F', F_GETPIPE_SZ),
	VALUE('F', F_SETPIPE_SZ), VALUE('F', F_ADD_SEALS), VALUE('F', F_GET_SEALS),

	BIT('C', FD_CLOEXEC),

	VALUE('W', SEEK_SET), VALUE('W', SEEK_CUR), VALUE('W', SEEK_END), VALUE('W', SEEK_DATA), VALUE('W', SEEK_HOLE),

	VALUE('R', F_OK), BIT('R', R_OK), BIT('R', W_OK), BIT('R', X_OK),

	BIT('T', AT_SYMLINK_NOFOLLOW), BIT('T', AT_SYMLINK_FOLLOW), BIT('T', AT_NO_AUTOMOUNT), BIT('T', AT_EMPTY_PATH),

	VALUE('H', SIG_BLOCK), VALUE('H', SIG_UNBLOCK), VALUE('H', SIG_SETMASK),

	BIT('N', WNOHANG), BIT('N', WUNTRACED), BIT('N', WEXITED), BIT('N', WCONTINUED), BIT('N', WNOWAIT),
};
/* clang-format on */

static void put_signal(struct line *l, int number)
{
	const char *name = sigabbrev_np(number);

	if (name)
		line_put(l, "SIG%s", name);
	else if (number >= __SIGRTMIN && number < _NSIG)
		line_put(l, "SIGRT_%d", number - __SIGRTMIN);
	else
		line_put(l, "%d", number);
}

bool line_names(struct line *l, char kind, uint64_t value)
{
	uint32_t left = (uint32_t)value;
	bool is_known = false;
	size_t start = l->used;

	if (kind == 'S') {
		put_signal(l, (int)value);
		return true;
	}
	for (size_t i = 0; i < COUNT(names); i++) {
		if (names[i].kind != kind)
			continue;
		is_known = true;
		if ((left & names[i].mask) != names[i].value)
			continue;
		/* What has no bits is said once, by the first that it fits. */
		if (!names[i].value && l->used != start)
			continue;
		line_put(l, "%s%s", l->used != start ? "|" : "", names[i].text);
		left &= ~names[i].mask;
		if (names[i].mask == ALL)
			return true;
	}
	if (is_known && (left || l->used == start))
		line_put(l, left ? "%s%#x" : "%s%u", l->used != start ? "|" : "", left);
	return is_known;
}
