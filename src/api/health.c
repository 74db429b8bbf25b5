#include "api/handlers.h"

#include "base/own.h"

/* What existing clients look for, to see what they may use. */
#define CONTRACT_VERSION "0.4.4"

void health_contract(struct call *call)
{
	const char *problem = service_not_ready(call->service);
	bool is_well = hotcell_is_well(call->service->engines.current->hotcell);

	reply_json(call, is_well ? 200 : 503,
		json_pack("{s:s, s:o, s:s, s:s, s:b}", "status", is_well ? "ok" : "error",
			"message", *problem ? json_string(problem) : json_null(), "version",
			CONTRACT_VERSION, "hotcell_version", hotcell_version(), "ready",
			!*problem));
}

void health_live(struct call *call)
{
	reply_json(call, 200, json_pack("{s:s}", "status", "ok"));
}

void health_ready(struct call *call)
{
	const char *problem = service_not_ready(call->service);

	if (*problem)
		reply_json(call, 503,
			json_pack("{s:s, s:s}", "status", "not ready", "message", problem));
	else
		reply_json(call, 200, json_pack("{s:s}", "status", "ok"));
}

void health_metrics(struct call *call)
{
	struct buf text = { 0 };

	metrics_write(call->service, &text);
	http_reply(call->x, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
	buf_free(&text);
}
