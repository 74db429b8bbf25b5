/* What a run leaves: its files, and an output that is too long for the reply, on their way into the store. */
#include "service/job_inner.h"

#include "base/buf.h"
#include "base/own.h"
#include "service/service.h"

#include <errno.h>
#include <string.h>

/* A descriptor for each regular one; what the store cannot take is told with its error. */
int job_open_file(void *context, const struct hotcell_file *file)
{
	struct job *job = context;
	struct job_file *f;
	struct err e = { 0 };

	if ((job->files_count & (job->files_count - 1)) == 0)
		job->files = xgrow(job->files, (job->files_count * 2 + 1) * sizeof(*job->files));
	f = &job->files[job->files_count++];
	*f = (struct job_file){
		.path = xstrdup(file->path),
		.kind = file->kind,
		.mode = file->mode,
		.target = file->target ? xstrdup(file->target) : NULL,
		.size_bytes = file->size_bytes,
		.blob_fd = -1,
	};
	if (strcmp(file->kind, "file") != 0)
		return -1;
	if (file->size_bytes > job->service->config->file_max_bytes) {
		f->error = EFBIG;
		return -1;
	}
	f->blob_fd = store_open_blob(job->service->store, &e);
	if (f->blob_fd < 0)
		f->error = e.sys_errno ? e.sys_errno : EIO;
	return f->blob_fd;
}

/* The oldest are asked first what they can spare: nothing. A quota is a quota. */
static bool has_room(const struct job *job, uint64_t more)
{
	uint64_t most = job->caller.rights.max_stored_bytes;

	return !most || store_owner_bytes(job->service->store, job->caller.owner) + more <= most;
}

void job_end_storing(struct job *job)
{
	if (--job->storing == 0)
		job_finish(job);
}

struct storing {
	struct job *job;
	size_t index; /* of the file; or SIZE_MAX: the whole output */
};

static void on_stored(void *context, const struct err *e)
{
	struct storing *storing = context;
	struct job *job = storing->job;
	bool is_output = storing->index == SIZE_MAX;

	if (e && is_output)
		job->full_id[0] = '\0';
	if (e && !is_output) {
		job->files[storing->index].id[0] = '\0';
		job->files[storing->index].error = e->sys_errno ? e->sys_errno : EIO;
	}
	free(storing);
	job_end_storing(job);
	job_release(job);
}

static void store(
	struct job *job, size_t index, const char *name, int fd, uint64_t size, char *ret_id)
{
	double now_s = service_now_s();
	uint64_t ttl_s = job->service->config->file_ttl_s;
	struct store_file file = {
		.owner = job->caller.owner,
		.name = (char *)(uintptr_t)name,
		.size_bytes = size,
		.created_s = now_s,
		.expires_s = ttl_s ? now_s + (double)ttl_s : 0,
	};
	struct storing *storing = xalloc(sizeof(*storing));

	*storing = (struct storing){ job, index };
	store_make_id(file.id);
	memcpy(ret_id, file.id, sizeof(file.id));
	job->storing++;
	job->references++;
	store_add_file(job->service->store, &file, fd, on_stored, storing);
}

/* Bytes that the engine could not write are not a file. */
static void note_errors(struct job *job)
{
	for (size_t i = 0; i < job->files_count && i < job->result->files_count; i++)
		if (job->result->files[i].error && !job->files[i].error)
			job->files[i].error = job->result->files[i].error;
}

void job_store_files(struct job *job)
{
	note_errors(job);
	if (job->session && session_takes_files(job->session, job))
		return;
	for (size_t i = 0; i < job->files_count; i++) {
		struct job_file *f = &job->files[i];

		if (f->blob_fd < 0)
			continue;
		if (!f->error && !has_room(job, f->size_bytes))
			f->error = EDQUOT;
		if (f->error)
			close(take_fd(&f->blob_fd));
		else
			store(job, i, f->path, take_fd(&f->blob_fd), f->size_bytes, f->id);
	}
	if (job->full_fd >= 0) {
		off_t size = lseek(job->full_fd, 0, SEEK_CUR);

		if (size > 0 && has_room(job, (uint64_t)size))
			store(job, SIZE_MAX, "output.txt", take_fd(&job->full_fd), (uint64_t)size,
				job->full_id);
	}
}

/* An output that is longer than the reply may be: all of it goes to a file. */
int job_open_overflow(void *context)
{
	struct job *job = context;
	struct err e = { 0 };

	if (job->full_fd < 0)
		job->full_fd = store_open_blob(job->service->store, &e);
	return job->full_fd;
}
