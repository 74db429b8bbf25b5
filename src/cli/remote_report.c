#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote.h"

#include "base/own.h"
#include "cli/plain.h"

#include <signal.h>
#include <string.h>

static const char *text_of(json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "";
}

int remote_exit_status(json_t *result)
{
	const char *reason = text_of(result, "reason");
	json_t *code = json_object_get(result, "exit_code");
	bool has_exited = strcmp(reason, "exited") == 0 || !*reason;
	int status = json_is_integer(code) ? (int)(json_integer_value(code) & 0xff) : EXIT_HOTCELL;

	if (strcmp(reason, "timeout") == 0 || json_is_true(json_object_get(result, "timed_out")))
		return EXIT_TIMEOUT;
	if (strcmp(reason, "cell_failed") == 0)
		return EXIT_HOTCELL;
	if (strcmp(reason, "cancelled") == 0)
		return 128 + SIGINT;
	/* Ended by a limit, however politely the program took it, is not a success. */
	return status == 0 && !has_exited ? 128 + SIGKILL : status;
}

/* ---- what is said on stderr ---- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	struct buf words = { 0 };
	auto_free char *plain = NULL;
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	buf_add_str(&words, text ? text : "");
	free(text);
	plain = plain_text(words.data);
	buf_free(&words);
	fprintf(stderr, "hotcell: %s\n", plain);
}

static void remark_reason(const struct run_options *o, json_t *r)
{
	const char *reason = text_of(r, "reason");
	const char *text = text_of(r, "reason_text");
	bool has_failed = strcmp(reason, "cell_failed") == 0;

	if (has_failed)
		say("%s", *text ? text : "the cell broke");
	else if (!o->quiet && *reason && strcmp(reason, "exited") != 0)
		say("%s%s%s", reason, *text ? ": " : "", text);
}

static void remark(const struct run_options *o, json_t *r)
{
	json_t *cut = json_object_get(r, "truncated");

	remark_reason(o, r);
	if (o->quiet)
		return;
	if (strcmp(text_of(r, "isolation"), "process") == 0)
		say("not isolated (--isolation process)");
	if (o->max_output_given && (json_is_true(json_object_get(cut, "stdout")) ||
					   json_is_true(json_object_get(cut, "stderr"))))
		say("output was cut (--max-output)");
	if (json_is_true(json_object_get(r, "files_incomplete")))
		say("there were too many files, or too deep ones, to list all");
}

static double number_of(json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static void print_stats(json_t *r)
{
	json_t *usage = json_object_get(r, "usage");
	json_t *soft = json_object_get(r, "limits_not_enforced");

	for (size_t i = 0; i < json_array_size(soft); i++)
		if (json_is_string(json_array_get(soft, i)))
			say("limit not enforced: %s", json_string_value(json_array_get(soft, i)));
	say("%s in %s: %.1f ms wall, %.1f ms waiting, %.1f ms cpu, %.1f MiB memory, %zu files",
		text_of(r, "language"), text_of(r, "isolation"), number_of(usage, "wall_us") / 1000,
		number_of(usage, "queue_us") / 1000, number_of(usage, "cpu_ms"),
		number_of(usage, "peak_memory_bytes") / 1048576,
		json_array_size(json_object_get(r, "files")));
	if (*text_of(r, "isolation_why"))
		say("in a container: %s", text_of(r, "isolation_why"));
	say("%s cell, run %s", json_is_true(json_object_get(r, "warm")) ? "warm" : "cold",
		text_of(r, "id"));
}

/* ---- the object ---- */

/* What a run on this machine always tells and a server only if there is something to tell. */
static void complete(json_t *r)
{
	json_t *otherwise = json_pack("{s:s, s:s, s:b, s:n, s:b}", "reason_text", "",
		"isolation_why", "", "files_incomplete", 0, "vm", "timed_out", 0);

	json_object_update_missing(r, otherwise);
	json_decref(otherwise);
}

int remote_report(const struct run_options *o, json_t *result)
{
	complete(result);
	if (o->json && json_print(json_incref(result)))
		return EXIT_HOTCELL;
	if (!o->json)
		remark(o, result);
	if (o->stats)
		print_stats(result);
	return remote_exit_status(result);
}
