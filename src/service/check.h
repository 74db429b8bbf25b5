/* check: a program of the config's that is asked before each run. It gets the request as one line of JSON on its
 * standard input; with exit status 0 the run goes on, with another it is refused, and the first line of its output
 * is the reason. One that takes too long, or cannot be started, refuses as well. */
#ifndef HOTCELL_SERVICE_CHECK_H
#define HOTCELL_SERVICE_CHECK_H

struct job;

/* Ends with job_enter() or job_fail(). */
void check_begin(struct job *job);

#endif
