/* check: a program of the config's that is asked before each run. It gets the request as one line of JSON on its
 * standard input, with the names of POST /v1/execute and a few more; with exit status 0 the run goes on, with another it is refused, and the first line of its output
 * is the reason. One that takes too long, or cannot be started, refuses as well. As many are asked at one time as may
 * run; the others wait, as long a queue as that for a place. */
#ifndef HOTCELL_SERVICE_CHECK_H
#define HOTCELL_SERVICE_CHECK_H

#include "base/list.h"

struct job;

struct checks {
	struct list going_on;
	struct list waiting; /* jobs */
	unsigned going_on_count;
	unsigned waiting_count;
};

void checks_open(struct checks *all);
/* Ends those that go on. */
void checks_close(struct checks *all);
/* Ends with job_let_through() or job_fail(). */
void check_begin(struct job *job);
/* It will not be run, whatever the answer is. */
void check_forget(struct job *job);

#endif
