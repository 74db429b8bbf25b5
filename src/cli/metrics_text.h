/* metrics_text: lines of Prometheus' text format, from a server that may send anything. */
#ifndef HOTCELL_CLI_METRICS_TEXT_H
#define HOTCELL_CLI_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { METRIC_LABELS_MAX = 8, METRIC_NAME_MAX = 63, METRIC_VALUE_MAX = 127 };

struct metric {
	char name[METRIC_NAME_MAX + 1];
	struct {
		char name[METRIC_NAME_MAX + 1];
		char value[METRIC_VALUE_MAX + 1]; /* cut if it is longer */
	} labels[METRIC_LABELS_MAX];
	unsigned labels_count;
	double value;
};

/* One line, without its end. False: a comment, an empty one, or none of the format. */
bool metrics_text_read(const char *line, size_t len, struct metric *ret);
/* "" if it has none of that name. */
const char *metrics_text_label(const struct metric *m, const char *name);

#endif
