#include "supervisor/supervisor.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/kvm.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/own.h"
#include "base/spawn.h"
#include "supervisor/demote.h"
#include "supervisor/listen.h"
#include "supervisor/places.h"
#include "supervisor/seal.h"
#include "supervisor/talk.h"
#include "wire/mounts.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WARDENS_MAX = 32,
	DRAIN_SLACK_S = 10, /* after which a daemon has not ended by itself */
	RESTART_MIN_MS = 200,
	RESTART_MAX_MS = 30000,
	STEADY_US =
		60 * 1000000, /* a daemon that has lived for so long was not wrong from the start */
	WARDEN_END_MS = 10000,
	SAME_WISH_US = 500000,
	EXIT_TROUBLE = 125,
};

struct supervisor {
	const struct supervisor_options *options;
	const struct config *config;
	struct config *own_config; /* the same, once it was read again */
	struct daemon_start start;
	struct places places;
	struct seal *seal;
	uid_t uid; /* of the daemon */
	gid_t gid;
	int signal_fd;
	int daemon_pid_fd; /* -1: there is none */
	int control_fd;
	int settings_fd;
	int wardens[WARDENS_MAX]; /* pidfds */
	unsigned wardens_count;
	bool is_ending;
	bool has_served;  /* one of them has come so far */
	int64_t kill_us;  /* when the daemon has had its time; 0: not yet */
	int64_t asked_us; /* when it was told to end */
	int64_t started_us;
	unsigned restart_ms;
	int exit_status;
};

/* ---- wardens ---- */

static const struct {
	char letter;
	const char *isolation;
} kinds[] = { { 'c', "container" }, { 'v', "vm" }, { 'p', "process" } };

static void reap_wardens(struct supervisor *s)
{
	for (unsigned i = 0; i < s->wardens_count;) {
		siginfo_t info = { 0 };

		if (waitid(P_PIDFD, (id_t)s->wardens[i], &info, WEXITED | WNOHANG | __WALL) == 0 &&
			info.si_pid == 0) {
			i++;
			continue;
		}
		close(s->wardens[i]);
		s->wardens[i] = s->wardens[--s->wardens_count];
	}
}

static int start_warden(struct supervisor *s, const char *isolation, int *ret_socket, struct err *e)
{
	const char *argv[16 + 2 * MOUNT_DIRS_MAX] = { "hotcell-warden", "--isolation", isolation,
		"--socket", "3", "--drivers", s->places.drivers };
	size_t argc = 7;
	int ends[2];
	int failed;

	if (strcmp(isolation, "process") == 0 && !s->config->allow_process)
		return err_set(e, ERR_UNAVAILABLE,
			"isolation process is not allowed (setting allow_process)");
	if (s->config->allow_host_network)
		argv[argc++] = "--host-network";
	for (size_t i = 0; i < s->config->mounts.count && i < MOUNT_DIRS_MAX; i++) {
		argv[argc++] = "--mount";
		argv[argc++] = s->config->mounts.at[i];
	}
	if (s->wardens_count == WARDENS_MAX)
		return err_set(e, ERR_LIMIT, "there are %d wardens already", WARDENS_MAX);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	failed = spawn_program(s->places.warden, argv, ends[1], &s->wardens[s->wardens_count], e);
	close(ends[1]);
	if (!failed) {
		s->wardens_count++;
		/* One that was killed at once is missed soon, by whoever asks it first: as one that is killed later. */
		failed = seal_send(s->seal, ends[0], e) && e->sys_errno != EPIPE;
	}
	if (failed) {
		close(ends[0]);
		return -1;
	}
	*ret_socket = ends[0];
	log_info("warden.started", { "isolation", .text = isolation });
	return 0;
}

static void answer_warden(struct supervisor *s, const char *isolation)
{
	auto_close int socket_fd = -1;
	struct err e = { 0 };

	reap_wardens(s);
	if (start_warden(s, isolation, &socket_fd, &e)) {
		log_error("warden.failed", { "isolation", .text = isolation },
			{ "text", .text = e.text });
		talk_send(s->control_fd, e.text, -1);
	} else {
		talk_send(s->control_fd, "ok", socket_fd);
	}
}

int supervisor_ask_warden(int control_fd, const char *isolation, int *ret_socket, struct err *e)
{
	char text[512];

	for (size_t i = 0; i < COUNT(kinds); i++)
		if (strcmp(kinds[i].isolation, isolation) == 0 &&
			send(control_fd, &kinds[i].letter, 1, MSG_NOSIGNAL) != 1)
			return err_sys(e, "ask the supervisor for a warden");
	if (!talk_receive(control_fd, 0, text, sizeof(text), ret_socket))
		return err_set(e, ERR_GONE, "the supervisor is gone");
	return *ret_socket < 0 ? err_set(e, ERR_UNAVAILABLE, "%s", text) : 0;
}

int supervisor_take_settings(int settings_fd, struct config **ret, struct err *e)
{
	enum { SETTINGS_MAX = 1 << 20 };
	auto_buf struct buf settings = { 0 };
	auto_close int fd = -1;
	char text[64];
	ssize_t n;

	if (!talk_receive(settings_fd, MSG_DONTWAIT, text, sizeof(text), &fd) || fd < 0)
		return err_set(e, ERR_GONE, "no settings have come");
	n = pread(fd, buf_reserve(&settings, SETTINGS_MAX), SETTINGS_MAX, 0);
	if (n < 0)
		return err_sys(e, "read the settings");
	settings.len = (size_t)n;
	return config_parse("settings", settings.data, settings.len, ret, e);
}

void supervisor_tell_ready(int control_fd)
{
	(void)!send(control_fd, "r", 1, MSG_NOSIGNAL);
}

/* ---- the daemon ---- */

/* In the child: it is the daemon from here on. */
static int be_daemon(struct supervisor *s, int control_fd, int settings_fd)
{
	struct err e = { 0 };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "hotcell-daemon");
	close(s->signal_fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (unsigned i = 0; i < s->wardens_count; i++)
		close(s->wardens[i]);
	s->start.control_fd = control_fd;
	s->start.settings_fd = settings_fd;
	if (demote(s->uid, s->gid, &e)) {
		log_error("daemon.failed", { "text", .text = e.text });
		return EXIT_TROUBLE;
	}
	return s->options->run(&s->start);
}

static int start_daemon(struct supervisor *s, struct err *e)
{
	int ends[2];
	int settings[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, settings))
		return err_sys(e, "socketpair");
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return err_sys(e, "start the daemon");
	if (pid == 0) {
		close(ends[0]);
		close(settings[0]);
		exit(be_daemon(s, ends[1], settings[1]));
	}
	close(ends[1]);
	close(settings[1]);
	s->control_fd = ends[0];
	s->settings_fd = settings[0];
	s->daemon_pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	s->started_us = clock_now_us();
	s->kill_us = 0;
	return s->daemon_pid_fd < 0 ? err_sys(e, "pidfd_open") : 0;
}

static void tell_daemon(const struct supervisor *s, int number)
{
	if (s->daemon_pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, s->daemon_pid_fd, number, NULL, 0);
}

/* Their sockets have closed: they clear up, and end. */
static void wait_for_wardens(struct supervisor *s)
{
	int64_t deadline_us = clock_now_us() + (int64_t)WARDEN_END_MS * 1000;

	reap_wardens(s);
	while (s->wardens_count && clock_now_us() < deadline_us) {
		struct pollfd one = { .fd = s->wardens[0], .events = POLLIN };

		poll(&one, 1, 100);
		reap_wardens(s);
	}
	for (unsigned i = 0; i < s->wardens_count; i++)
		syscall(SYS_pidfd_send_signal, s->wardens[i], SIGKILL, NULL, 0);
}

static void note_end(struct supervisor *s, const siginfo_t *info)
{
	bool lived = clock_now_us() - s->started_us > STEADY_US;

	s->exit_status = info->si_code == CLD_EXITED ? info->si_status : 128 + info->si_status;
	/* It says itself why it cannot begin, and would do so again. */
	if (s->exit_status == EXIT_TROUBLE && !s->has_served)
		s->is_ending = true;
	if (s->is_ending)
		return;
	log_error("daemon.ended", { "status", .number = s->exit_status });
	s->restart_ms = lived || !s->restart_ms ? RESTART_MIN_MS : s->restart_ms * 2;
	if (s->restart_ms > RESTART_MAX_MS)
		s->restart_ms = RESTART_MAX_MS;
}

static void on_daemon_end(struct supervisor *s)
{
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)s->daemon_pid_fd, &info, WEXITED) != 0)
		return;
	close(take_fd(&s->daemon_pid_fd));
	close(take_fd(&s->control_fd));
	close(take_fd(&s->settings_fd));
	note_end(s, &info);
	wait_for_wardens(s);
}

/* ---- what happens ---- */

static void on_control(struct supervisor *s)
{
	struct err ignored;
	char letter;

	if (recv(s->control_fd, &letter, 1, MSG_DONTWAIT) != 1)
		return; /* its end is told by its pidfd */
	if (letter == 'r') {
		if (!s->has_served)
			listen_tell(&s->start);
		s->has_served = true;
		notify_send("READY=1\nSTATUS=", &ignored);
	}
	for (size_t i = 0; i < COUNT(kinds); i++)
		if (kinds[i].letter == letter)
			answer_warden(s, kinds[i].isolation);
}

/* A manager waits from the first of them to the second, which is the daemon's to tell if all is well. */
static void tell_reloading(void)
{
	char text[80];
	struct err ignored;

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_now_us());
	notify_send(text, &ignored);
}

static void tell_not_reloaded(const char *why)
{
	char text[256];
	struct err ignored;

	snprintf(text, sizeof(text), "READY=1\nSTATUS=The settings of before: %s", why);
	/* A line would be another message. */
	for (char *at = strstr(text, "STATUS"); *at; at++)
		if (*at == '\n')
			*at = ' ';
	notify_send(text, &ignored);
}

/* It may not be able to read the file itself, and its defaults would be another user's. */
static int pass_settings(const struct supervisor *s, struct err *e)
{
	auto_close int fd = memfd_create("settings", MFD_CLOEXEC);
	auto_fclose FILE *file = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!file)
		return err_sys(e, "hand the settings to the daemon");
	config_print(s->config, file);
	fflush(file);
	talk_send(s->settings_fd, "settings", fd);
	return 0;
}

static void tell_later(const struct config *old, const struct config *c)
{
	auto_buf struct buf names = { 0 };

	config_list_later(old, c, &names);
	if (names.len)
		log_warning("config.later", { "settings", .text = names.data },
			{ "text", .text = "these hold when the service is started again" });
}

/* They are ours, too: wardens are started by them, and the next daemon. */
static void read_settings_again(struct supervisor *s)
{
	struct err e = { 0 };
	struct config *c;

	tell_reloading();
	c = s->options->read_config(s->options->context, &e);
	if (c) {
		tell_later(s->config, c);
		config_keep_places(s->config, c);
		config_free(s->own_config);
		s->config = s->start.config = s->own_config = c;
		seal_free(s->seal);
		s->seal = seal_open(s->places.share, c);
		log_setup(c->log_level, c->log_format);
	}
	/* With no daemon there, the next one has them, and tells when it serves. */
	if (!c || (s->settings_fd >= 0 && pass_settings(s, &e))) {
		log_error("config.wrong", { "text", .text = e.text });
		tell_not_reloaded(e.text);
	}
}

/* A manager has patience of its own, of which the setting `drain_s` knows nothing. */
static void tell_stopping(const struct supervisor *s)
{
	int64_t most_s = (int64_t)s->config->drain_s + DRAIN_SLACK_S + WARDEN_END_MS / 1000;
	char text[80];
	struct err ignored;

	snprintf(text, sizeof(text), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld",
		(long long)most_s * 1000000);
	notify_send(text, &ignored);
}

static void on_signal(struct supervisor *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		read_settings_again(s);
		return;
	}
	/* One Ctrl-C may come twice: from the terminal, and from whoever started us. */
	if (s->is_ending && clock_now_us() - s->asked_us < SAME_WISH_US)
		return;
	/* The first asks, the second insists. */
	tell_daemon(s, s->is_ending ? SIGKILL : SIGTERM);
	if (!s->is_ending)
		tell_stopping(s);
	s->is_ending = true;
	s->asked_us = clock_now_us();
	s->kill_us = clock_now_us() + (int64_t)(s->config->drain_s + DRAIN_SLACK_S) * 1000000;
}

static void step(struct supervisor *s)
{
	struct pollfd fds[3] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->daemon_pid_fd, .events = POLLIN },
		{ .fd = s->control_fd, .events = POLLIN },
	};

	poll(fds, COUNT(fds), s->kill_us || s->wardens_count ? 1000 : -1);
	if (fds[0].revents)
		on_signal(s);
	if (fds[2].revents)
		on_control(s);
	if (fds[1].revents)
		on_daemon_end(s);
	reap_wardens(s);
	if (s->kill_us && clock_now_us() > s->kill_us)
		tell_daemon(s, SIGKILL);
}

/* A signal ends the wait. */
static void wait_before_restart(struct supervisor *s)
{
	struct pollfd one = { .fd = s->signal_fd, .events = POLLIN };

	if (poll(&one, 1, (int)s->restart_ms) > 0)
		on_signal(s);
}

static int keep_running(struct supervisor *s, struct err *e)
{
	while (!s->is_ending) {
		if (start_daemon(s, e))
			return -1;
		while (s->daemon_pid_fd >= 0)
			step(s);
		if (!s->is_ending)
			wait_before_restart(s);
	}
	return 0;
}

/* ---- beginning ---- */

/* Each cell has a few descriptors here, and each connection one; and a vm takes some, which only root can have where the
 * limit is lower. Returns whether there are so many. */
static bool raise_files_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return true;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max >= VMM_FDS_MAX)
		return true;
	files.rlim_cur = files.rlim_max = VMM_FDS_MAX;
	return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

static bool has_kvm(void)
{
	struct err e = { 0 };
	auto_close int fd = kvm_open(&e);

	return fd >= 0;
}

/* Where there are none, runs that leave it open have a container: so what a warden would miss is asked for here. */
static bool find_vms(void)
{
	bool has_files = raise_files_limit();

	if (!has_kvm())
		return false;
	if (!has_files)
		log_warning("serve.no_vms",
			{ "text",
				.text = "a vm takes more open files than the hard limit (ulimit -Hn)" },
			{ "takes", .number = VMM_FDS_MAX });
	return has_files;
}

static int open_signals(struct supervisor *s, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? err_sys(e, "signalfd") : 0;
}

static void tell_other_port(struct err *e)
{
	size_t used = strlen(e->text);

	snprintf(e->text + used, sizeof(e->text) - used,
		ERR_ADVICE "give another one, with --port N or with PORT=N in the environment");
}

static void tell_user_in_vain(const struct config *c)
{
	if (config_user_is_in_vain(c))
		log_warning("serve.user_in_vain", { "user", .text = c->user },
			{ "text", .text = "only root can become another user; it stays who it is" },
			{ "uid", .number = (int64_t)geteuid() });
}

static int begin(struct supervisor *s, struct err *e)
{
	struct daemon_start *start = &s->start;

	start->has_kvm = find_vms();
	start->config = s->options->config;
	start->owner_uid = geteuid();
	tell_user_in_vain(s->config);
	s->uid = geteuid();
	s->gid = getegid();
	if (places_find(&s->places, e) ||
		(geteuid() == 0 && config_find_user(s->config, &s->uid, &s->gid, e)) ||
		config_make_state_dir(s->config, e) || open_signals(s, e))
		return -1;
	s->seal = seal_open(s->places.share, s->config);
	start->share_fd = open(s->places.share, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (start->share_fd < 0)
		return err_sys(e, "open '%s'", s->places.share);
	if (listen_open(s->config, start, e) == 0)
		return 0;
	if (e->sys_errno == EADDRINUSE)
		tell_other_port(e);
	return -1;
}

int supervisor_run(const struct supervisor_options *options)
{
	struct supervisor s = {
		.options = options,
		.config = options->config,
		.signal_fd = -1,
		.daemon_pid_fd = -1,
		.control_fd = -1,
		.settings_fd = -1,
	};
	struct err e = { 0 };
	int failed = begin(&s, &e) || keep_running(&s, &e);

	if (failed) {
		log_error("serve.failed", { "text", .text = e.text });
		/* What could not begin will not the next time either; what has served may. */
		s.exit_status = s.has_served ? EXIT_FAILURE : EXIT_TROUBLE;
	}
	listen_close(s.config, &s.start);
	places_free(&s.places);
	seal_free(s.seal);
	config_free(s.own_config);
	return s.exit_status;
}
