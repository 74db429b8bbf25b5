#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, enum err_kind kind, const char *format, ...)
{
	va_list args;

	e->kind = kind;
	e->sys_errno = 0;
	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return -1;
}

int err_sys(struct err *e, const char *format, ...)
{
	int saved = errno;
	va_list args;
	size_t used;

	e->kind = ERR_SYSTEM;
	e->sys_errno = saved;
	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	used = strlen(e->text);
	snprintf(e->text + used, sizeof(e->text) - used, ": %s", strerror(saved));
	errno = saved;
	return -1;
}

int err_wrap(struct err *e, const char *format, ...)
{
	char inner[sizeof(e->text)];
	va_list args;
	size_t used;

	memcpy(inner, e->text, sizeof(inner));
	va_start(args, format);
	/* At most half: a long path in front must not push the reason out. */
	vsnprintf(e->text, sizeof(e->text) / 2, format, args);
	va_end(args);
	used = strlen(e->text);
	snprintf(e->text + used, sizeof(e->text) - used, ": %s", inner);
	return -1;
}
