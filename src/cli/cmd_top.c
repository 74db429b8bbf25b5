/* `hotcell top`: looks every second, and draws what it has seen.
 *
 *	enter_screen --> look, draw --second, key, size--> look, draw … --q, signal--> leave_screen
 *
 * The terminal is left as it was found, whatever ends us but SIGKILL. All that is drawn has passed top_view(),
 * which lets no control character through; those that move the cursor are written here only. */
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/show.h"
#include "cli/top.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "cli/plain.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

enum { KEY_JSON = 0x200, EVERY_US = 1000000 };

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

struct top_command {
	struct server_options server;
	bool json;
	struct client *client;
	struct top_look now;
	struct top_look before;
	bool has_now;
	bool has_before;
	char problem[256];
};

/* ---- the terminal ---- */

static struct {
	struct termios before;
	bool is_entered;
} terminal;

static void leave_screen(void)
{
	if (!terminal.is_entered)
		return;
	terminal.is_entered = false;
	fd_write_all(STDOUT_FILENO, LEAVE, strlen(LEAVE));
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal.before);
}

static int enter_screen(struct err *e)
{
	struct termios quiet;

	if (tcgetattr(STDIN_FILENO, &terminal.before))
		return err_sys(e, "the terminal");
	quiet = terminal.before;
	quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	quiet.c_cc[VMIN] = 0;
	quiet.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet))
		return err_sys(e, "the terminal");
	terminal.is_entered = true;
	return fd_write_all(STDOUT_FILENO, ENTER, strlen(ENTER)) ? err_sys(e, "the terminal") : 0;
}

static struct top_screen measure(const struct top_command *t)
{
	struct winsize size = { 0 };
	struct top_screen screen = { .server = client_name(t->client) };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	screen.columns = size.ws_col ? size.ws_col : 80;
	/* The last line stays free: what ends it would scroll the screen. */
	screen.rows = size.ws_row > 1 ? size.ws_row - 1U : 23;
	screen.problem = *t->problem ? t->problem : NULL;
	return screen;
}

/* Each line over what was there, and nothing below the last one. */
static int draw(const struct top_command *t)
{
	struct top_screen screen = measure(t);
	auto_buf struct buf text = { 0 };
	auto_buf struct buf out = { 0 };
	const char *at;
	const char *end;

	top_view(&t->now, t->has_before ? &t->before : NULL, &screen, &text);
	buf_add_str(&out, "\033[H");
	for (at = text.data; (end = strchr(at, '\n')); at = end + 1) {
		buf_add(&out, at, (size_t)(end - at));
		buf_add_str(&out, "\033[K\r\n");
	}
	buf_add_str(&out, "\033[J");
	return fd_write_all(STDOUT_FILENO, out.data, out.len);
}

/* ---- looking ---- */

static void look(struct top_command *t)
{
	struct top_look seen;
	struct err e = { 0 };

	if (top_look(t->client, &seen, &e)) {
		snprintf(t->problem, sizeof(t->problem), "%s", e.text);
		return;
	}
	t->problem[0] = '\0';
	top_look_free(&t->before);
	t->before = t->now;
	t->has_before = t->has_now;
	t->now = seen;
	t->has_now = true;
}

/* ---- the loop ---- */

/* Another size, or Ctrl-Z: not for the client to be ended by. */
static int catch_others(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int stop_for_a_while(struct err *e)
{
	leave_screen();
	raise(SIGSTOP);
	return enter_screen(e);
}

/* Whether `q` was pressed, or nobody is there to press it. */
static bool wants_end(short events)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (events & (POLLHUP | POLLERR | POLLNVAL))
		return true;
	return n > 0 && (memchr(keys, 'q', (size_t)n) || memchr(keys, 'Q', (size_t)n));
}

/* Until the next look is due: 0; 1: the end; -1 with *e. */
static int wait_for_people(struct top_command *t, int ending_fd, int other_fd, struct err *e)
{
	int64_t until_us = clock_now_us() + EVERY_US;

	while (clock_now_us() < until_us) {
		struct pollfd fds[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = ending_fd, .events = POLLIN },
			{ .fd = other_fd, .events = POLLIN },
		};
		struct signalfd_siginfo told;

		if (poll(fds, COUNT(fds), clock_ms_until(until_us)) < 0 && errno != EINTR)
			return err_sys(e, "wait");
		if (fds[1].revents || (fds[0].revents && wants_end(fds[0].revents)))
			return 1;
		while (fds[2].revents && read(other_fd, &told, sizeof(told)) == sizeof(told))
			if (told.ssi_signo == SIGTSTP && stop_for_a_while(e))
				return -1;
		if (fds[2].revents && draw(t))
			return err_sys(e, "the terminal");
	}
	return 0;
}

static int watch(struct top_command *t, struct err *e)
{
	int ending_fd = show_catch_signals();
	int other_fd = catch_others();
	int ended = 0;

	client_watch_signals(t->client, ending_fd);
	atexit(leave_screen);
	look(t);
	/* One that is not there from the beginning is a mistake; one that goes may come again. */
	if (!t->has_now)
		return err_set(e, ERR_GONE, "%s", t->problem);
	if (enter_screen(e))
		return -1;
	while (!ended) {
		if (draw(t))
			ended = err_sys(e, "the terminal");
		else
			ended = wait_for_people(t, ending_fd, other_fd, e);
		if (!ended)
			look(t);
		if (client_was_interrupted(t->client))
			ended = 1;
	}
	leave_screen();
	return ended < 0 ? -1 : 0;
}

/* ---- once ---- */

static json_t *list_or_empty(json_t *list)
{
	return list ? json_incref(list) : json_array();
}

static int print_once(struct top_command *t, struct err *e)
{
	struct top_screen screen = { .server = client_name(t->client) };
	auto_buf struct buf text = { 0 };

	if (top_look(t->client, &t->now, e))
		return -1;
	if (t->json)
		return json_print(json_pack("{s:O, s:o, s:o}", "metrics", t->now.metrics, "runs",
			       list_or_empty(t->now.runs), "sessions",
			       list_or_empty(t->now.open_sessions))) ?
			       err_set(e, ERR_SYSTEM, "standard output takes no more") :
			       0;
	top_view(&t->now, NULL, &screen, &text);
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

/* ---- the command line ---- */

static const struct argp_option table[] = {
	{ "json", KEY_JSON, NULL, 0, "print once, as JSON", 1 },
	{ 0 },
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct top_command *t = state->input;

	(void)value;
	switch (key) {
	case KEY_JSON:
		t->json = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &t->server;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = { { &server_options_argp, 0, NULL, 2 }, { 0 } };
	static const struct argp argp = { table, on_option, NULL,
		"Shows the cells, sessions and runs of a service, every second anew; 'q' ends it. Without a "
		"terminal it prints once.",
		children, NULL, NULL };
	static char name[] = "hotcell top";
	static struct top_command t;
	struct err e = { 0 };
	int failed;

	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, &t);
	if (client_open(&t.server, &t.client, &e))
		return complain("%s", e.text);
	if (!t.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		failed = watch(&t, &e);
	else
		failed = print_once(&t, &e);
	top_look_free(&t.now);
	top_look_free(&t.before);
	client_free(t.client);
	if (failed) {
		auto_free char *words = plain_text(e.text);

		return complain("%s", words);
	}
	return stdout_finish() ? EXIT_HOTCELL : 0;
}
