/* libhotcell: opening, closing, and the one loop. */
#include "engine/engine.h"

#include "base/kvm.h"
#include "base/own.h"
#include "base/path.h"
#include "engine/snapshot.h"
#include "engine/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

_Static_assert((int)HOTCELL_ERROR_GONE == (int)ERR_GONE, "the kinds of errors are the same");

const char *hotcell_version(void)
{
	return HOTCELL_VERSION;
}

void error_out(struct hotcell_error *ret, const struct err *e)
{
	ret->kind = (enum hotcell_error_kind)e->kind;
	ret->sys_errno = e->sys_errno;
	snprintf(ret->text, sizeof(ret->text), "%s", e->text);
}

/* ---- finding our own files ---- */

static char *program_dir(void)
{
	char path[PATH_MAX_BYTES + 1];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (len <= 0)
		return NULL;
	path[len] = '\0';
	slash = strrchr(path, '/');
	*slash = '\0';
	return xstrdup(path);
}

/* Beside the program (a build tree, or a copy of it), else where it was installed. */
static char *find_warden(void)
{
	auto_free char *dir = program_dir();
	char *path = dir ? path_join(dir, "hotcell-warden") : NULL;

	if (path && access(path, X_OK) == 0)
		return path;
	free(path);
	return xstrdup(HOTCELL_LIBEXECDIR "/hotcell-warden");
}

/* Where the warden will look for it. */
static char *find_vmm(const char *warden_path)
{
	auto_free char *real = realpath(warden_path, NULL);
	int len = real ? (int)(path_base(real) - real) : 0;

	return xasprintf("%.*shotcell-vmm", len, real ? real : "");
}

/* A directory that was opened by somebody with more rights is named by its descriptor. That name is ours alone, so one
 * that is good for other processes is better, if we may go there. */
static char *resolve(const char *dir)
{
	char *real = realpath(dir, NULL);

	if (strncmp(dir, "/proc/self/fd/", 14) != 0 || (real && access(real, R_OK | X_OK) == 0))
		return real;
	free(real);
	return xstrdup(dir);
}

static char *find_share(void)
{
	auto_free char *dir = program_dir();
	const char *const places[] = { "..", "../share/hotcell" };

	for (size_t i = 0; dir && i < COUNT(places); i++) {
		auto_free char *candidate = xasprintf("%s/%s", dir, places[i]);
		auto_free char *languages = path_join(candidate, "languages");

		if (access(languages, F_OK) == 0)
			return realpath(candidate, NULL);
	}
	return xstrdup(HOTCELL_SHAREDIR);
}

static char *default_cache_dir(void)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (cache && cache[0] == '/')
		return path_join(cache, "hotcell");
	/* A home that is not there (a daemon's "/nonexistent") is not to be made. */
	if (!home || home[0] != '/' || access(home, F_OK))
		return NULL;
	return xasprintf("%s/.cache/hotcell", home);
}

/* ---- opening ---- */

enum { DIRS_MAX = 16 };

static int load_languages(struct hotcell *h, const struct hotcell_options *o, struct err *e)
{
	auto_free char *shipped = path_join(h->share_dir, "languages");
	auto_free char *own = language_user_dir();
	const char *dirs[DIRS_MAX];
	unsigned count = 0;

	/* One file instead of all, where nobody can have overridden it. */
	if (o->once && o->once_language && !(o->language_dirs && *o->language_dirs) &&
		(!own || access(own, F_OK))) {
		h->registry = registry_load_one(shipped, o->once_language);
		if (h->registry)
			return 0;
	}
	dirs[count++] = shipped;
	/* Not ours to read (another's home): as good as not there. */
	if (own && access(own, R_OK | X_OK) == 0)
		dirs[count++] = own;
	for (const char *const *at = o->language_dirs; at && *at; at++) {
		if (count == DIRS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d directories of languages",
				DIRS_MAX - 2);
		if (access(*at, R_OK | X_OK))
			return err_sys(e, "languages directory '%s'", *at);
		dirs[count++] = *at;
	}
	h->registry = registry_load(dirs, count, o->on_problem, o->context);
	return 0;
}

static void open_cache(struct hotcell *h, const struct hotcell_options *o)
{
	auto_free char *dir = o->cache_dir ? xstrdup(o->cache_dir) : default_cache_dir();

	h->cache = probe_cache_open(dir && *dir ? dir : NULL);
	if (dir && *dir)
		h->cache_dir = take_ptr(&dir);
}

const char *engine_no_kvm(struct hotcell *h)
{
	struct err e = { 0 };

	if (h->has_asked_for_kvm)
		return h->no_kvm;
	h->has_asked_for_kvm = true;
	if (h->start_warden) { /* by somebody who sees more of the machine than we do */
		snprintf(h->no_kvm, sizeof(h->no_kvm), "%s",
			h->has_kvm ? "" : "there are no vms here");
	} else {
		auto_close int fd = kvm_open(&e);

		if (fd < 0)
			snprintf(h->no_kvm, sizeof(h->no_kvm), "a vm needs %.100s", e.text);
	}
	return h->no_kvm;
}

/* What is most likely asked for first. */
static enum isolation_kind first_kind(struct hotcell *h, const struct hotcell_options *o)
{
	if (o->once && o->once_isolation == HOTCELL_ISOLATION_PROCESS)
		return ISOLATION_PROCESS;
	if (o->once && o->once_isolation == HOTCELL_ISOLATION_CONTAINER)
		return ISOLATION_CONTAINER;
	return engine_no_kvm(h)[0] ? ISOLATION_CONTAINER : ISOLATION_VM;
}

static void copy_mount_dirs(struct hotcell *h, const char *const *dirs)
{
	size_t count = 0;

	while (dirs && dirs[count])
		count++;
	h->mount_dirs = xalloc((count + 1) * sizeof(char *));
	for (size_t i = 0; i < count; i++)
		h->mount_dirs[i] = xstrdup(dirs[i]);
}

int hotcell_open(
	const struct hotcell_options *options, struct hotcell **ret, struct hotcell_error *error)
{
	static const struct hotcell_options none;
	const struct hotcell_options *o = options ? options : &none;
	struct hotcell *h = xalloc(sizeof(*h));
	auto_free char *drivers = NULL;
	struct err e = { 0 };

	for (int kind = 0; kind <= ISOLATION_VM; kind++) {
		h->links[kind].kind = (enum isolation_kind)kind;
		h->links[kind].socket_fd = h->links[kind].pid_fd = -1;
	}
	h->timers.fd = -1;
	h->allow_host_network = o->allow_host_network;
	copy_mount_dirs(h, o->mount_dirs);
	h->once = o->once;
	h->never_waits = o->never_waits;
	h->start_warden = o->start_warden;
	h->wardens_are_sealed = o->wardens_are_sealed;
	h->context = o->context;
	h->has_kvm = o->has_kvm;
	h->warden_path = o->warden_path ? xstrdup(o->warden_path) : find_warden();
	h->vmm_path = find_vmm(h->warden_path);
	h->share_dir = o->share_dir ? resolve(o->share_dir) : find_share();
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0 || timers_open(h) || !h->share_dir) {
		err_sys(&e, h->share_dir ? "epoll" : "open '%s'", o->share_dir);
		error_out(error, &e);
		hotcell_close(h);
		return -1;
	}
	drivers = path_join(h->share_dir, "drivers");
	if (access(drivers, F_OK) == 0)
		h->drivers_dir = take_ptr(&drivers);
	/* Almost every run needs it: it starts while we read the languages. */
	if (link_start(h, &h->links[first_kind(h, o)], false, &e)) {
		error_out(error, &e);
		hotcell_close(h);
		return -1;
	}
	if (load_languages(h, o, &e)) {
		error_out(error, &e);
		hotcell_close(h);
		return -1;
	}
	open_cache(h, o);
	*ret = h;
	return 0;
}

static void close_engine(struct hotcell *h, bool wait)
{
	if (!h)
		return;
	prepare_end_all(h);
	for (size_t i = 0; i < COUNT(h->cells); i++)
		while (h->cells[i])
			hotcell_cell_free(h->cells[i]);
	for (int kind = 0; kind <= ISOLATION_VM; kind++)
		link_close(h, &h->links[kind], wait);
	snapshot_close_all(h);
	if (h->registry)
		tool_forget_all(h);
	free(h->cache_dir);
	if (h->cache)
		probe_cache_close(h->cache);
	if (h->registry)
		registry_free(h->registry);
	own_close(&h->timers.fd);
	own_close(&h->epoll_fd);
	free(h->warden_path);
	free(h->vmm_path);
	free(h->share_dir);
	free(h->drivers_dir);
	strings_free(h->mount_dirs);
	free(h);
}

void hotcell_close(struct hotcell *h)
{
	close_engine(h, true);
}

/* In the machine's first pid namespace pid 1 reaps whom we leave. A container's often does not, and
 * would fill up with our dead wardens. */
static bool somebody_reaps(void)
{
	enum { FIRST_PID_NAMESPACE = 0xEFFFFFFC }; /* PROC_PID_INIT_INO: the kernel's, for good */
	struct stat space;

	return stat("/proc/self/ns/pid", &space) == 0 && space.st_ino == (ino_t)FIRST_PID_NAMESPACE;
}

void hotcell_abandon(struct hotcell *h)
{
	close_engine(h, !somebody_reaps());
}

/* ---- the loop ---- */

int hotcell_fd(const struct hotcell *h)
{
	return h->epoll_fd;
}

enum { EVENTS_MAX = 64 };

/* Handling one event may end what another one is about: source_remove() takes that out. While an event is
 * handled, somebody may wait for others: then there is a batch within a batch. */
struct batch {
	struct batch *outer;
	struct epoll_event events[EVENTS_MAX];
	int count;
	int at; /* the next one */
};

int source_add(struct hotcell *h, struct source *source, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int source_remove(struct hotcell *h, const struct source *source, int fd)
{
	for (struct batch *batch = h->batch; batch; batch = batch->outer)
		for (int i = batch->at; i < batch->count; i++)
			if (batch->events[i].data.ptr == source)
				batch->events[i].data.ptr = NULL;
	return epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int hotcell_dispatch(struct hotcell *h, int timeout_ms, struct hotcell_error *error)
{
	struct batch batch = { .outer = h->batch };
	struct err e = { 0 };

	batch.count = epoll_wait(h->epoll_fd, batch.events, EVENTS_MAX, timeout_ms);
	if (batch.count < 0 && errno != EINTR) {
		err_sys(&e, "epoll_wait");
		error_out(error, &e);
		return -1;
	}
	h->batch = &batch;
	while (batch.at < batch.count) {
		const struct epoll_event *event = &batch.events[batch.at++];
		struct source *source = event->data.ptr;

		if (source)
			source->on_event(h, source, event->events);
	}
	h->batch = batch.outer;
	prepare_step_all(h);
	return 0;
}
