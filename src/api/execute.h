/* execute: runs, and whoever waits for them. */
#ifndef HOTCELL_API_EXECUTE_H
#define HOTCELL_API_EXECUTE_H

#include "api/body.h"
#include "service/job.h"

void execute_run(struct call *call);
void execute_stream(struct call *call);
/* Runs what the body says, in a session or not. */
void execute_body(struct call *call, struct body *b, struct session *session, bool streams);
/* Runs what `spec` says (and takes it), in a session or not, and answers the call with what becomes of it. */
void execute_submit(struct call *call, struct spec *spec, struct session *session, bool streams);
/* A stream of a run that somebody else has begun: what there was of it, then what comes. */
void execute_follow(struct call *call, struct job *job);

#endif
