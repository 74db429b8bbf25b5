#include "cli/json.h"

#include <string.h>

static json_t *json_files(const struct hotcell_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->files_count; i++)
		json_array_append_new(list,
			json_pack("{s:o, s:I, s:s}", "path",
				json_text(r->files[i].path, strlen(r->files[i].path)), "size_bytes",
				(json_int_t)r->files[i].size_bytes, "kind", r->files[i].kind));
	return list;
}

static json_t *json_compile(const struct hotcell_compile *c)
{
	if (!c->present)
		return json_null();
	return json_pack("{s:o, s:o, s:i, s:I}", "stdout", json_text(c->out.data, c->out.len),
		"stderr", json_text(c->err.data, c->err.len), "exit_code", c->exit_code,
		"duration_ms", (json_int_t)(c->duration_us / 1000));
}

static json_t *json_vm(const struct hotcell_result *r)
{
	if (strcmp(r->isolation, "vm") != 0)
		return json_null();
	return json_pack("{s:b, s:I, s:I, s:o}", "warm", r->warm, "exits", (json_int_t)r->vm.exits,
		"unknown_calls", (json_int_t)r->vm.unknown_calls, "missing_call",
		*r->vm.missing_call ? json_string(r->vm.missing_call) : json_null());
}

json_t *json_result(const struct hotcell_result *r)
{
	json_t *not_enforced = json_array();
	json_t *o = json_object();

	for (char **at = r->limits_not_enforced; *at; at++)
		json_array_append_new(not_enforced, json_string(*at));
	json_object_set_new(o, "stdout", json_text(r->out.data, r->out.len));
	json_object_set_new(o, "stderr", json_text(r->err.data, r->err.len));
	json_object_set_new(
		o, "exit_code", r->exit_code < 0 ? json_null() : json_integer(r->exit_code));
	json_object_set_new(o, "reason", json_string(hotcell_reason_name(r->reason)));
	json_object_set_new(o, "reason_text", json_string(r->reason_text));
	json_object_set_new(o, "timed_out", json_boolean(r->reason == HOTCELL_TIMEOUT));
	json_object_set_new(o, "duration_ms", json_integer((json_int_t)(r->duration_us / 1000)));
	json_object_set_new(o, "isolation", json_string(r->isolation));
	json_object_set_new(o, "isolation_why", json_string(r->isolation_why));
	json_object_set_new(o, "language", json_string(r->language));
	json_object_set_new(o, "compile", json_compile(&r->compile));
	json_object_set_new(o, "files", json_files(r));
	json_object_set_new(o, "files_incomplete", json_boolean(r->files_incomplete));
	json_object_set_new(o, "usage",
		json_pack("{s:I, s:I, s:I}", "cpu_ms", (json_int_t)(r->usage.cpu_us / 1000),
			"peak_memory_bytes", (json_int_t)r->usage.peak_memory_bytes, "processes",
			(json_int_t)r->usage.processes));
	json_object_set_new(o, "vm", json_vm(r));
	json_object_set_new(o, "truncated",
		json_pack("{s:b, s:b}", "stdout", r->out.truncated, "stderr", r->err.truncated));
	json_object_set_new(o, "limits_not_enforced", not_enforced);
	return o;
}
