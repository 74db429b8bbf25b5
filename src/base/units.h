/* units: "10s", "256M", "0.5" as people type them. */
#ifndef HOTCELL_BASE_UNITS_H
#define HOTCELL_BASE_UNITS_H

#include "base/err.h"

#include <stdint.h>

/* "250ms", "10s", "2m", "1h"; a bare number is seconds; fractions are fine. At least 1 ms. */
int units_parse_duration(const char *text, uint64_t *ret_ms, struct err *e);
/* "64k", "256M", "1G" (powers of 1024, an "iB" or "B" behind is fine); a bare number is bytes. */
int units_parse_size(const char *text, uint64_t *ret_bytes, struct err *e);
int units_parse_count(const char *text, uint64_t *ret, struct err *e);
/* "0.5" cores as thousandths: 500. */
int units_parse_milli(const char *text, uint64_t *ret_milli, struct err *e);

#endif
