#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

struct show {
	const struct run_options *options;
	uint64_t shown[2];
	bool broken; /* nobody reads our output any more */
};

static void on_output(void *context, enum hotcell_stream stream, int compiling, const char *data,
	size_t len)
{
	struct show *s = context;
	bool is_err = stream == HOTCELL_STDERR || compiling;
	uint64_t most = s->options->max_output_given ? s->options->request.max_output : UINT64_MAX;
	uint64_t room = most > s->shown[is_err] ? most - s->shown[is_err] : 0;

	if (len > room)
		len = (size_t)room;
	s->shown[is_err] += len;
	if (len && fd_write_all(is_err ? STDERR_FILENO : STDOUT_FILENO, data, len) && errno == EPIPE)
		s->broken = true;
}

static int read_code(struct run_options *o)
{
	struct err e;

	if (fd_slurp(AT_FDCWD, "/dev/stdin", 256 << 20, &o->code, &e))
		return complain("standard input: %s", e.text);
	o->request.code = o->code.data ? o->code.data : "";
	o->request.code_len = o->code.len;
	return 0;
}

/* FILE becomes one more input, and the one that is run. */
static void add_code_file(struct run_options *o)
{
	struct hotcell_input *input = &o->inputs[o->request.inputs_count++];

	input->host_path = o->code_file;
	input->path = path_base(o->code_file);
	if (!o->request.entry)
		o->request.entry = input->path;
}

static int open_stdin(struct run_options *o)
{
	if (!o->stdin_path)
		return 0;
	o->request.have_stdin_fd = 1;
	o->request.stdin_fd = STDIN_FILENO;
	if (strcmp(o->stdin_path, "-") == 0)
		return 0;
	o->request.stdin_fd = open(o->stdin_path, O_RDONLY | O_CLOEXEC);
	return o->request.stdin_fd < 0 ?
		       complain("open '%s': %s", o->stdin_path, strerror(errno)) :
		       0;
}

/* Ctrl-C and friends end the cell, not us: the result is still told. */
static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int wait_for(struct hotcell *h, struct hotcell_work *work, const struct show *show,
	struct hotcell_result **ret, struct hotcell_error *e)
{
	auto_close int signals = catch_signals();
	int interrupts = 0;

	while (!hotcell_done(work)) {
		struct pollfd fds[2] = {
			{ .fd = hotcell_fd(h), .events = POLLIN },
			{ .fd = signals, .events = POLLIN },
		};
		struct signalfd_siginfo info;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents && read(signals, &info, sizeof(info)) == sizeof(info))
			interrupts++;
		if (interrupts || show->broken)
			hotcell_cancel(work);
		if (fds[0].revents && hotcell_dispatch(h, 0, e))
			break;
	}
	return hotcell_finish(work, ret, e);
}

static void remark(const struct run_options *o, const struct hotcell_result *r)
{
	if (o->quiet)
		return;
	if (r->reason != HOTCELL_EXITED)
		fprintf(stderr, "hotcell: %s%s%s\n", hotcell_reason_name(r->reason),
			*r->reason_text ? ": " : "", r->reason_text);
	for (char **at = r->limits_not_enforced; *at; at++)
		if (o->stats)
			fprintf(stderr, "hotcell: limit not enforced: %s\n", *at);
	if (strcmp(r->isolation, "process") == 0)
		fprintf(stderr, "hotcell: not isolated (--isolation process)\n");
	if (o->max_output_given && (r->out.truncated || r->err.truncated))
		fprintf(stderr, "hotcell: output was cut (--max-output)\n");
	if (r->files_incomplete)
		fprintf(stderr, "hotcell: there were too many files, or too deep ones, to list all\n");
}

static void print_stats(const struct hotcell_result *r)
{
	fprintf(stderr,
		"hotcell: %s in %s: %.1f ms wall, %.1f ms cpu, %.1f MiB memory, %llu processes, "
		"%zu files\n",
		r->language, r->isolation, (double)r->duration_us / 1000,
		(double)r->usage.cpu_us / 1000, (double)r->usage.peak_memory_bytes / 1048576,
		(unsigned long long)r->usage.processes, r->files_count);
}

static int report(const struct run_options *o, const struct hotcell_result *r)
{
	if (o->json && json_print(json_result(r)))
		return complain("write to standard output: %s", strerror(errno));
	if (!o->json)
		remark(o, r);
	if (o->stats)
		print_stats(r);
	if (r->reason == HOTCELL_TIMEOUT)
		return EXIT_TIMEOUT;
	if (r->reason == HOTCELL_CELL_FAILED)
		return EXIT_HOTCELL;
	if (r->reason == HOTCELL_CANCELLED)
		return 128 + SIGINT;
	/* Ended by a limit, however politely the program took it, is not a success. */
	return r->exit_code == 0 && r->reason != HOTCELL_EXITED ? 128 + SIGKILL : r->exit_code;
}

static int run(struct run_options *o)
{
	struct hotcell_options options = {
		.language_dirs = o->language_dirs,
		.allow_host_network = o->request.network == HOTCELL_NETWORK_HOST,
		.once = 1,
		.on_problem = complain_of_language,
	};
	struct show show = { .options = o };
	struct hotcell_result *result = NULL;
	struct hotcell_error e = { 0 };
	struct hotcell_work *work;
	struct hotcell *h;
	int status;

	if (hotcell_open(&options, &h, &e))
		return complain("%s", e.text);
	o->request.context = &show;
	if (!o->json)
		o->request.on_output = on_output;
	if (hotcell_start(h, &o->request, &work, &e) || wait_for(h, work, &show, &result, &e))
		status = complain("%s", e.text);
	else
		status = report(o, result);
	hotcell_result_free(result);
	hotcell_abandon(h);
	return status;
}

int cmd_run(int argc, char **argv)
{
	static struct run_options o;
	int status = 0;

	options_parse(&o, argc, argv);
	if (o.code_file && strcmp(o.code_file, "-") == 0)
		status = read_code(&o);
	else if (o.code_file)
		add_code_file(&o);
	if (!status)
		status = open_stdin(&o);
	if (!status)
		status = run(&o);
	options_free(&o);
	return status;
}
