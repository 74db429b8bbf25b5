#include "cli/cli.h"
#include "cli/json.h"
#include "engine/doctor.h"
#include "engine/snapshot.h"

#include "base/own.h"
#include "wire/vmm_start.h"

#include <argp.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_JSON = 0x100, KEY_EXPLAIN, KEY_VERIFY };

struct doctor {
	bool json;
	bool explain;
	bool verify;
	bool whole; /* nothing that container isolation needs is missing */
	json_t *rows;
};

static const struct argp_option table[] = {
	{ "json", KEY_JSON, NULL, 0, "print JSON", 0 },
	{ "explain", KEY_EXPLAIN, NULL, 0,
		"print the steps into a container cell and the table of system calls", 0 },
	{ "verify", KEY_VERIFY, NULL, 0,
		"read every snapshot of a warm machine that is kept, and remove those that are broken; "
		"checks nothing else",
		0 },
	{ 0 },
};

static const char *const state_names[] = {
	[CHECK_FINE] = "fine",
	[CHECK_WEAK] = "weak",
	[CHECK_MISSING] = "missing",
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct doctor *d = state->input;

	(void)value;
	switch (key) {
	case KEY_JSON:
		d->json = true;
		return 0;
	case KEY_EXPLAIN:
		d->explain = true;
		return 0;
	case KEY_VERIFY:
		d->verify = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void on_row(void *context, const struct msg_checked *row)
{
	struct doctor *d = context;

	if (row->state < CHECK_FINE || row->state > CHECK_MISSING)
		return;
	if (row->needed && row->state != CHECK_FINE)
		d->whole = false;
	json_array_append_new(
		d->rows, json_pack("{s:s, s:s, s:b, s:s, s:s}", "name", row->name, "state",
				 state_names[row->state], "needed", row->needed, "detail",
				 row->detail, "fix", row->fix));
	if (d->json)
		return;
	printf("%-8s %-18s %s\n", state_names[row->state], row->name, row->detail);
	if (*row->fix)
		printf("%-8s %-18s fix: %s\n", "", "", row->fix);
}

/* What a container must be given for cells to be built in it; "" outside of one. */
static const char *container_fix(void)
{
	if (getenv("KUBERNETES_SERVICE_HOST"))
		return "give the container the securityContext of docs/CONTAINERS.md: capability "
		       "SYS_ADMIN, seccompProfile and appArmorProfile Unconfined";
	if (access("/.dockerenv", F_OK) && access("/run/.containerenv", F_OK))
		return "";
	if (geteuid() == 0)
		return "start the container with: --cap-add SYS_ADMIN --security-opt "
		       "seccomp=unconfined --security-opt apparmor=unconfined (narrower ways: "
		       "docs/CONTAINERS.md)";
	return "start the container with: --security-opt seccomp=unconfined --security-opt "
	       "apparmor=unconfined --security-opt systempaths=unconfined (narrower ways: "
	       "docs/CONTAINERS.md)";
}

static const char *vm_fix(void)
{
	return "mend what is not fine above; until then: hotcell run --isolation container";
}

/* What KVM stands on, as hotcell-vmm finds it out: by trying. */
static const struct {
	const char *name;
	const char *text;
} kinds[] = {
	{ "pvm", "; KVM is in software here (PVM)" },
	{ "svm", "; KVM is the processor's here (SVM): experimental, tested in emulation only" },
	{ "vt-x", "; KVM is the processor's here (VT-x): experimental, never tested" },
};

static const char *kind_of_host(const struct hotcell *h)
{
	static char name[] = "hotcell-vmm";
	static char option[] = "--tell-host";
	char *const argv[] = { name, option, NULL };
	char *const environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	int ends[2] = { -1, -1 };
	char said[16] = "";
	ssize_t len = 0;
	pid_t pid;
	int failed;

	if (pipe2(ends, O_CLOEXEC))
		return "";
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, VMM_KVM_FD, "/dev/kvm", O_RDWR, 0);
	failed = posix_spawn(&pid, h->vmm_path, &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	own_close(&ends[1]);
	if (!failed) {
		len = read(ends[0], said, sizeof(said) - 1);
		waitpid(pid, NULL, 0);
	}
	own_close(&ends[0]);
	said[len > 0 ? len : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	for (size_t i = 0; i < COUNT(kinds); i++)
		if (strcmp(said, kinds[i].name) == 0)
			return kinds[i].text;
	return "";
}

/* The advice that others are given: it is in the rows above, and we are the doctor. */
static void cut_advice(char *text)
{
	static const char *const advice[] = { ERR_ADVICE, "; 'hotcell doctor'" };

	for (size_t i = 0; i < COUNT(advice); i++) {
		char *at = strstr(text, advice[i]);

		if (at)
			*at = '\0';
	}
}

/* The proof: a real cell. `row` says what it is called, and how bad it is if there is none. */
static void try_cell(struct hotcell *h, struct doctor *d, enum hotcell_isolation isolation,
	struct msg_checked row, const char *(*fix)(void))
{
	struct hotcell_request q = {
		.language = "sh", .code = "echo works", .isolation = isolation
	};
	struct hotcell_result *r = NULL;
	struct hotcell_error e = { 0 };
	char detail[256];

	row.fix = fix();
	if (hotcell_run(h, &q, &r, &e)) {
		cut_advice(e.text);
		row.detail = e.text;
	} else if (strcmp(r->out.data, "works\n") != 0) {
		row.detail = "one was built, but a program did not run in it";
	} else {
		row.state = CHECK_FINE;
		snprintf(detail, sizeof(detail), "one was built, and a program ran in it%s",
			isolation == HOTCELL_ISOLATION_VM ? kind_of_host(h) : "");
		row.detail = detail;
		row.fix = "";
	}
	on_row(d, &row);
	hotcell_result_free(r);
}

static int explain(struct hotcell *h)
{
	fflush(stdout);
	execl(h->warden_path, "hotcell-warden", "--explain", (char *)NULL);
	return complain("start '%s'", h->warden_path);
}

static void on_snapshot(void *context, const char *name, const char *problem)
{
	struct doctor *d = context;
	const char *state = problem ? "broken" : "ok";

	json_array_append_new(d->rows, json_pack("{s:s, s:s, s:s}", "name", name, "state", state,
					       "detail", problem ? problem : ""));
	if (!d->json)
		printf("%-8s %s%s%s\n", state, name, problem ? ": " : "", problem ? problem : "");
}

static int verify(struct hotcell *h, struct doctor *d)
{
	struct err e = { 0 };
	int broken = h->cache_dir ? snapshot_verify_all(h->cache_dir, on_snapshot, d, &e) : 0;
	int failed = 0;

	if (broken < 0)
		return complain("%s", e.text);
	if (d->json)
		failed = json_print(json_pack("{s:O}", "snapshots", d->rows));
	else if (json_array_size(d->rows) == 0)
		puts("No snapshots are kept.");
	if (failed || stdout_finish())
		return EXIT_HOTCELL;
	return broken ? 1 : 0;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp argp = { table, on_option, NULL,
		"Says what this machine gives each isolation, and how to get what is missing. Exits "
		"with 0 only if container isolation is whole; with --verify, if no snapshot was broken.",
		NULL, NULL, NULL };
	static char name[] = "hotcell doctor";
	struct doctor d = { .whole = true, .rows = json_array() };
	struct hotcell_error e;
	struct hotcell *h;
	struct err problem = { 0 };
	int failed = 0;

	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, &d);
	if (hotcell_open(NULL, &h, &e))
		return complain("%s", e.text);
	if (d.explain)
		return explain(h);
	if (d.verify) {
		failed = verify(h, &d);
		hotcell_close(h);
		json_decref(d.rows);
		return failed;
	}
	if (doctor_ask(h, on_row, &d, &problem)) {
		hotcell_close(h);
		return complain("%s", problem.text);
	}
	try_cell(h, &d, HOTCELL_ISOLATION_CONTAINER,
		(struct msg_checked){ "container cell", CHECK_MISSING, .needed = 1 },
		container_fix);
	try_cell(
		h, &d, HOTCELL_ISOLATION_VM, (struct msg_checked){ "vm cell", CHECK_WEAK }, vm_fix);
	hotcell_close(h);
	if (d.json)
		failed = json_print(json_pack("{s:b, s:O}", "whole", d.whole, "checks", d.rows));
	else
		puts(d.whole ? "\nContainer isolation is whole." :
			       "\nContainer isolation is NOT whole: see above.");
	json_decref(d.rows);
	if (failed || stdout_finish())
		return EXIT_HOTCELL;
	return d.whole ? 0 : 1;
}
