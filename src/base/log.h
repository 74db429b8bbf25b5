/* log: one event per line, for people or for programs.
 *
 *	log_info("session.closed", { "id", .text = id }, { "age_s", .number = 900 });
 *
 *	2026-11-16T10:00:00.123Z info session.closed id=s1 age_s=900
 *	{"time":"2026-11-16T10:00:00.123Z","level":"info","event":"session.closed","id":"s1","age_s":900}
 *
 * Only programs speak; libraries are silent. Never code, output or keys. Text is written so that it can fake
 * neither a line nor a field, whatever is in it. A line that would be longer than 4 KiB is cut, and says so:
 * cut=yes, "cut":true. */
#ifndef HOTCELL_BASE_LOG_H
#define HOTCELL_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_PLAIN, LOG_FORMAT_JSON };

struct log_field {
	const char *name;
	const char *text; /* NULL: it is the number */
	int64_t number;
};

/* To standard error. Before it: level info, plain. */
void log_setup(enum log_level least, enum log_format format);
void log_write(enum log_level level, const char *event, const struct log_field *fields);

#ifndef __cppcheck__
#define log_debug(event, ...)                                                                      \
	log_write(LOG_LEVEL_DEBUG, event,                                                          \
		(const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_info(event, ...)                                                                       \
	log_write(LOG_LEVEL_INFO, event,                                                           \
		(const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_warning(event, ...)                                                                    \
	log_write(LOG_LEVEL_WARNING, event,                                                        \
		(const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_error(event, ...)                                                                      \
	log_write(LOG_LEVEL_ERROR, event,                                                          \
		(const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#else /* which stumbles over them */
#define log_debug(event, ...)   ((void)0)
#define log_info(event, ...)    ((void)0)
#define log_warning(event, ...) ((void)0)
#define log_error(event, ...)   ((void)0)
#endif

#endif
