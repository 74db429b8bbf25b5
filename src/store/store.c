#include "base/path.h"
#include "store/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

enum { LOCK_TRIES = 40, LOCK_PAUSE_MS = 25 };

double store_now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int store_check_text(const char *what, const char *text, size_t max, struct err *e)
{
	if (!text)
		return err_set(e, ERR_INPUT, "the %s is missing", what);
	if (strnlen(text, max + 1) > max)
		return err_set(e, ERR_LIMIT, "the %s is longer than %zu bytes", what, max);
	return 0;
}

int store_write_removed(
	struct store *s, enum query which, const char *what, const char *id, struct err *e)
{
	auto_query query = db_query(&s->writer, which, e);

	if (!query)
		return -1;
	db_bind(query, 1, id);
	if (db_step(&s->writer, query, e))
		return -1;
	if (sqlite3_changes(s->writer.sqlite) == 0)
		return err_set(e, ERR_NOT_FOUND, "there is no %s '%.64s'", what, id);
	return 0;
}

/* ---- ids ---- */

static void draw(uint8_t b[16])
{
	/* Cannot come short for so few bytes; without them nothing could be kept apart. */
	while (getrandom(b, 16, 0) != 16) {
		if (errno != EINTR)
			abort();
	}
}

static void print_id(uint8_t b[16], uint8_t version, char ret[STORE_ID_SIZE])
{
	b[6] = (uint8_t)((b[6] & 0x0f) | version << 4);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(ret, STORE_ID_SIZE,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

void store_make_id(char ret[STORE_ID_SIZE])
{
	uint8_t b[16];

	draw(b);
	print_id(b, 4, ret);
}

void store_make_run_id(char ret[STORE_ID_SIZE])
{
	uint64_t ms = (uint64_t)(store_now_s() * 1000);
	uint8_t b[16];

	draw(b);
	for (unsigned i = 0; i < 6; i++)
		b[i] = (uint8_t)(ms >> (40 - 8 * i));
	print_id(b, 7, ret);
}

bool store_is_id(const char *text)
{
	/* x: any digit, v: the version, y: the variant. */
	static const char form[] = "xxxxxxxx-xxxx-vxxx-yxxx-xxxxxxxxxxxx";
	size_t i;

	for (i = 0; form[i]; i++) {
		const char *allowed = form[i] == 'x' ? "0123456789abcdef" :
				      form[i] == 'y' ? "89ab" :
				      form[i] == 'v' ? "47" :
						       "-";

		if (!text[i] || !strchr(allowed, text[i]))
			return false;
	}
	return text[i] == '\0';
}

/* ---- opening ---- */

/* What root makes for another user belongs to that user: `hotcell keys` may come before the first
 * start of a service. */
static int give_to_owner(const struct store *s, int fd, struct err *e)
{
	struct stat status;

	if (geteuid() != 0)
		return 0;
	if (fstat(s->dir_fd, &status) || fchown(fd, status.st_uid, status.st_gid))
		return err_sys(e, "give what was made to the directory's owner");
	return 0;
}

static int open_dir(struct store *s, struct err *e)
{
	path_make_private(s->dir);
	s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd >= 0 && faccessat(s->dir_fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	if (errno == EACCES || errno == EPERM || errno == EROFS)
		return err_sys(e, "it must be readable and writable by this user (%u)",
			(unsigned)geteuid());
	return err_sys(e, "open this directory");
}

/* Not by SQLite, which would make it for others to read as well. And only if it is new: to close a
 * database that this process has open elsewhere would let go of that one's locks. */
static int make_database(struct store *s, struct err *e)
{
	auto_close int fd =
		openat(s->dir_fd, "hotcell.db", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0)
		return err_sys(e, "make hotcell.db");
	if (give_to_owner(s, fd, e))
		return -1;
	return fsync(s->dir_fd) ? err_sys(e, "sync this directory") : 0;
}

static int open_databases(struct store *s, struct err *e)
{
	auto_free char *path = path_join(s->dir, "hotcell.db");

	if (make_database(s, e) || db_open_writer(&s->writer, path, e))
		return -1;
	return db_open_reader(&s->reader, path, e);
}

static int open_files(struct store *s, struct err *e)
{
	bool made = mkdirat(s->dir_fd, "files", 0700) == 0;

	s->files_fd = openat(s->dir_fd, "files", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->files_fd < 0)
		return err_sys(e, "open 'files'");
	if (made && (give_to_owner(s, s->files_fd, e) || fsync(s->dir_fd)))
		return err_sys(e, "make 'files'");
	return 0;
}

/* The kernel unlocks when a process dies; a child of it that is about to execute something may hold
 * it for a moment longer. */
static int become_the_only_one(struct store *s, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };

	for (int i = 0; flock(s->dir_fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock it");
		if (i == LOCK_TRIES)
			return err_set(e, ERR_UNAVAILABLE,
				"another service uses it: stop that one, or name another directory");
		nanosleep(&pause, NULL);
	}
	return 0;
}

static struct store *store_new(const char *dir)
{
	struct store *s = xalloc(sizeof(*s));
	pthread_condattr_t attr;

	s->dir = xstrdup(dir);
	s->dir_fd = s->files_fd = s->event_fd = -1;
	pthread_mutex_init(&s->writing, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

static int open_for_service(struct store *s, struct err *e)
{
	if (open_dir(s, e) || become_the_only_one(s, e) || open_databases(s, e) ||
		open_files(s, e) || blobs_sweep(s, e) || files_count_owners(s, e))
		return -1;
	return writer_start(s, e);
}

static int open_for_keys(struct store *s, struct err *e)
{
	return open_dir(s, e) || open_databases(s, e) ? -1 : 0;
}

static int open_by(int (*how)(struct store *s, struct err *e), const char *dir, struct store **ret,
	struct err *e)
{
	struct store *s = store_new(dir);

	if (how(s, e)) {
		store_close(s);
		return err_wrap(e, "store '%s'", dir);
	}
	*ret = s;
	return 0;
}

int store_open(const char *dir, struct store **ret, struct err *e)
{
	return open_by(open_for_service, dir, ret, e);
}

int store_open_keys(const char *dir, struct store **ret, struct err *e)
{
	return open_by(open_for_keys, dir, ret, e);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->has_thread)
		writer_stop(s);
	/* The one that writes last: it takes the log into the database. */
	db_close(&s->reader);
	db_close(&s->writer);
	owners_free(s);
	runs_free(&s->runs_waiting);
	own_close(&s->event_fd);
	own_close(&s->files_fd);
	own_close(&s->dir_fd);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->writing);
	free(s->dir);
	free(s);
}
