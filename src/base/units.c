#include "base/units.h"

#include "base/own.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

/* A non-negative decimal number and what stands behind it. strtod alone would also take "inf",
 * "nan", hex and signs. */
static int parse_number(const char *text, double *ret, const char **ret_rest)
{
	char *end;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -1;
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return -1;
	errno = 0;
	*ret = strtod(text, &end);
	*ret_rest = end;
	return errno || !isfinite(*ret) || end == text ? -1 : 0;
}

struct unit {
	const char *name;
	double factor;
};

static int parse_with_units(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
	const char *rest;
	double number;

	if (parse_number(text, &number, &rest))
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(rest, units[i].name) == 0) {
			number *= units[i].factor;
			if (number > 1e18)
				return -1;
			*ret = (uint64_t)(number + 0.5);
			return 0;
		}
	}
	return -1;
}

int units_parse_duration(const char *text, uint64_t *ret_ms, struct err *e)
{
	static const struct unit units[] = {
		{ "", 1000 },
		{ "ms", 1 },
		{ "s", 1000 },
		{ "m", 60000 },
		{ "min", 60000 },
		{ "h", 3600000 },
	};

	if (parse_with_units(text, units, COUNT(units), ret_ms) || *ret_ms == 0)
		return err_set(e, ERR_INPUT, "'%s': want a time such as 250ms, 10s or 2m", text);
	return 0;
}

int units_parse_size(const char *text, uint64_t *ret_bytes, struct err *e)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "b", 1 },
		{ "k", 1024 },
		{ "kb", 1024 },
		{ "kib", 1024 },
		{ "m", 1048576 },
		{ "mb", 1048576 },
		{ "mib", 1048576 },
		{ "g", 1073741824 },
		{ "gb", 1073741824 },
		{ "gib", 1073741824 },
		{ "t", 1099511627776 },
		{ "tb", 1099511627776 },
		{ "tib", 1099511627776 },
	};

	if (parse_with_units(text, units, COUNT(units), ret_bytes) || *ret_bytes == 0)
		return err_set(e, ERR_INPUT, "'%s': want a size such as 64k, 256M or 1G", text);
	return 0;
}

int units_parse_count(const char *text, uint64_t *ret, struct err *e)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || *ret == 0)
		return err_set(e, ERR_INPUT, "'%s': want a whole number from 1 up", text);
	return 0;
}

int units_parse_milli(const char *text, uint64_t *ret_milli, struct err *e)
{
	static const struct unit units[] = { { "", 1000 } };

	if (parse_with_units(text, units, COUNT(units), ret_milli) || *ret_milli == 0)
		return err_set(e, ERR_INPUT, "'%s': want a number of cores such as 0.5 or 2", text);
	return 0;
}
