#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/show.h"

#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_output(
	void *context, enum hotcell_stream stream, int compiling, const char *data, size_t len)
{
	show_output(context, stream == HOTCELL_STDERR || compiling, data, len);
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
	struct stat status;

	if (!o->stdin_path)
		return 0;
	o->request.have_stdin_fd = 1;
	o->request.stdin_fd = STDIN_FILENO;
	if (strcmp(o->stdin_path, "-") != 0)
		o->request.stdin_fd = open(o->stdin_path, O_RDONLY | O_CLOEXEC);
	if (o->request.stdin_fd < 0)
		return complain("open '%s': %s", o->stdin_path, strerror(errno));
	/* Opening a directory works; reading it would look like no input at all. */
	if (fstat(o->request.stdin_fd, &status) == 0 && S_ISDIR(status.st_mode))
		return complain("stdin = '%s': it is a directory", o->stdin_path);
	return 0;
}

static int wait_for(struct hotcell *h, struct hotcell_work *work, struct show *s,
	struct hotcell_result **ret, struct hotcell_error *e)
{
	while (!hotcell_done(work)) {
		struct pollfd fds[2] = {
			{ .fd = hotcell_fd(h), .events = POLLIN },
			{ .fd = s->interrupted ? -1 : s->signal_fd, .events = POLLIN },
		};

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			s->interrupted = true;
		if (s->interrupted || s->error)
			hotcell_cancel(work);
		if (fds[0].revents && hotcell_dispatch(h, 0, e))
			break;
	}
	return hotcell_finish(work, ret, e);
}

static void remark(const struct run_options *o, const struct hotcell_result *r)
{
	if (r->reason == HOTCELL_CELL_FAILED)
		complain("%s", r->reason_text);
	if (o->quiet)
		return;
	if (r->reason != HOTCELL_EXITED && r->reason != HOTCELL_CELL_FAILED)
		fprintf(stderr, "hotcell: %s%s%s\n", hotcell_reason_name(r->reason),
			*r->reason_text ? ": " : "", r->reason_text);
	for (char **at = r->limits_not_enforced; *at; at++)
		if (o->stats)
			fprintf(stderr, "hotcell: limit not enforced: %s\n", *at);
	if (strcmp(r->isolation, "process") == 0)
		fprintf(stderr, "hotcell: not isolated (--isolation process)\n");
	if (o->max_output_given && (r->out.truncated || r->err.truncated))
		fprintf(stderr, "hotcell: output was cut (--max-output)\n");
	for (size_t i = 0; i < r->files_count; i++)
		if (r->files[i].error)
			fprintf(stderr, "hotcell: '%s' could not be copied: %s\n", r->files[i].path,
				strerror(r->files[i].error));
	if (r->files_incomplete)
		fprintf(stderr,
			"hotcell: there were too many files, or too deep ones, to list all\n");
	/* To people: in a script it would stand among what the program says, each time. */
	if (*r->isolation_why && !o->stats && isatty(STDERR_FILENO))
		fprintf(stderr, "hotcell: in a container: %s\n", r->isolation_why);
}

static void print_stats(const struct hotcell_result *r)
{
	fprintf(stderr,
		"hotcell: %s in %s: %.1f ms wall, %.1f ms cpu, %.1f MiB memory, %llu processes, "
		"%zu files\n",
		r->language, r->isolation, (double)r->duration_us / 1000,
		(double)r->usage.cpu_us / 1000, (double)r->usage.peak_memory_bytes / 1048576,
		(unsigned long long)r->usage.processes, r->files_count);
	if (*r->isolation_why)
		fprintf(stderr, "hotcell: in a container: %s\n", r->isolation_why);
	if (strcmp(r->isolation, "vm") == 0)
		fprintf(stderr, "hotcell: %s machine, left %llu times, %llu unknown calls%s%s\n",
			r->warm ? "warm" : "cold", (unsigned long long)r->vm.exits,
			(unsigned long long)r->vm.unknown_calls,
			*r->vm.missing_call ? ", first " : "", r->vm.missing_call);
}

static int report(const struct run_options *o, const struct show *s, const struct hotcell_result *r)
{
	if (s->error == EPIPE)
		return 128 + SIGPIPE; /* as a program without us would have ended */
	if (s->error)
		return complain("write the program's output: %s", strerror(s->error));
	if (o->json && json_print(json_result(r)))
		return EXIT_HOTCELL;
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

/* The library says what is wrong; what to type instead is known here. */
static int complain_of_request(const struct run_options *o, const struct hotcell_error *e)
{
	static const char unknown[] = "unknown language";
	static const char unnamed[] = "the language is not named";
	const char *file = o->code_file ? o->code_file : o->request.entry;

	if (strncmp(e->text, unknown, strlen(unknown)) == 0 && !strstr(e->text, "did you mean"))
		return complain("%s; 'hotcell languages' lists them", e->text);
	if (strncmp(e->text, unnamed, strlen(unnamed)) != 0)
		return complain("%s", e->text);
	if (!file)
		return complain("%s; give -l LANG", e->text);
	return complain("'%s': %s; give -l LANG", file, e->text);
}

static int run(struct run_options *o)
{
	struct hotcell_options options = {
		.language_dirs = o->language_dirs,
		.allow_host_network = o->request.network == HOTCELL_NETWORK_HOST,
		.mount_dirs = o->mount_dirs,
		.once = 1,
		.once_language = o->request.language,
		.once_isolation = o->request.isolation,
		.on_problem = complain_of_language,
	};
	struct show s = {
		.most = o->max_output_given ? o->request.max_output : UINT64_MAX,
		.signal_fd = show_catch_signals(),
	};
	struct hotcell_result *result = NULL;
	struct hotcell_error e = { 0 };
	struct hotcell_work *work;
	struct hotcell *h;
	int status;

	if (hotcell_open(&options, &h, &e))
		return complain("%s", e.text);
	o->request.context = &s;
	if (!o->json)
		o->request.on_output = on_output;
	if (hotcell_start(h, &o->request, &work, &e) || wait_for(h, work, &s, &result, &e))
		status = complain_of_request(o, &e);
	else
		status = report(o, &s, result);
	hotcell_result_free(result);
	hotcell_abandon(h);
	return status;
}

int cmd_run(int argc, char **argv)
{
	static struct run_options o;
	static char command[] = "run";
	int status = 0;

	options_parse(&o, argc, argv);
	if (options_want_server(&o)) {
		argv[0] = command;
		return become("hotcell-client", argv);
	}
	if (o.code_file && strcmp(o.code_file, "-") == 0)
		status = options_read_code(&o);
	else if (o.code_file)
		add_code_file(&o);
	if (!status)
		status = open_stdin(&o);
	if (!status)
		status = run(&o);
	options_free(&o);
	return status;
}
