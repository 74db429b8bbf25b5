/* job_inner: what the files of a job share. */
#ifndef HOTCELL_SERVICE_JOB_INNER_H
#define HOTCELL_SERVICE_JOB_INNER_H

#include "service/job.h"

/* ---- job.c ---- */
/* The last step: whoever follows is told. */
void job_finish(struct job *job);

/* ---- job_follow.c ---- */
/* For hotcell_request. */
void job_on_output(
	void *context, enum hotcell_stream stream, int compiling, const char *data, size_t len);
void job_drop_log(struct job *job);

/* ---- job_files.c ---- */
/* For hotcell_request. */
int job_open_file(void *context, const struct hotcell_file *file);
int job_open_overflow(void *context);
/* Each file that begins its way to the disk counts in job->storing; job_finish() is called when none is left. */
void job_store_files(struct job *job);
void job_end_storing(struct job *job);

#endif
