/* run_reply: what became of a run, as JSON. */
#ifndef HOTCELL_API_RUN_REPLY_H
#define HOTCELL_API_RUN_REPLY_H

#include "api/api.h"
#include "service/job.h"

/* All of it: the contract's fields, and ours. `cached`: it was answered from the cache. */
json_t *run_reply_json(const struct job *job, bool cached);
/* The last event of a stream: without what was streamed already, as it came (`has_followed`) or from the result. */
json_t *run_reply_end(const struct job *job, bool has_followed);
/* Why there is no result. */
void run_reply_refusal(const struct job *job, struct refusal *ret);

#endif
