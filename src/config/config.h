/* config: the service's settings, from one table.
 *
 * A setting comes, later ones winning, from: its default; the YAML file (--config, else
 * /etc/hotcell/config.yaml or ~/.config/hotcell/config.yaml if it is there); the environment (HOTCELL_NAME, and
 * for some an old name without prefix such as PORT); a flag (--name). Wrong values are told by name, value and
 * what was expected. `hotcell serve --print-config` prints all of them as such a file, each with its sentence. */
#ifndef HOTCELL_CONFIG_CONFIG_H
#define HOTCELL_CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct config_list {
	char **at; /* NULL-terminated, never NULL */
	size_t count;
};

enum { CONFIG_WARM_NAME_MAX = 63 }; /* bytes of a language or a profile in `warm` */

enum config_reuse { CONFIG_REUSE_SAME_OWNER, CONFIG_REUSE_NEVER, CONFIG_REUSE_ALWAYS };

struct config {
	/* Where it listens */
	char *host;    /* 127.0.0.1; "" = no TCP at all */
	uint64_t port; /* 8000 */
	char *socket;  /* the local user's; default: /run/hotcell/hotcell.sock as root, else
	                    * $XDG_RUNTIME_DIR/hotcell.sock, else /tmp/hotcell-UID/hotcell.sock; "none" = no */
	bool no_auth;  /* who shows no key is let in */
	struct config_list cors_origins;  /* none */
	struct config_list allowed_hosts; /* Host headers beside localhost and the like */
	uint64_t connections_max;         /* 10000 */
	uint64_t connection_idle_s;       /* 60: of silence */
	uint64_t request_bytes_max;       /* 16 MiB: a JSON body */

	/* Who and where it is */
	char *user; /* that the daemon becomes if started as root; default "hotcell" if there is one, else a
	                   * number that nobody has */
	char *state_dir; /* /var/lib/hotcell as root, else $XDG_STATE_HOME/hotcell, else ~/.local/state/hotcell */
	struct config_list language_dirs;

	/* What a run may have: the default where it does not say, and the most it may ask for */
	uint64_t timeout_default_ms;   /* 2000 */
	uint64_t timeout_max_ms;       /* 60000; MAX_EXEC_TIMEOUT_MS */
	uint64_t cpu_default_ms;       /* 5000; CPU_TIME_LIMIT_SEC is in seconds */
	uint64_t cpu_max_ms;           /* 60000 */
	uint64_t memory_default_bytes; /* 256 MiB; MEMORY_LIMIT_MB is in MiB */
	uint64_t memory_max_bytes;     /* 2 GiB */
	uint64_t processes_default;    /* 64 */
	uint64_t processes_max;        /* 1024 */
	uint64_t disk_default_bytes;   /* 256 MiB */
	uint64_t disk_max_bytes;       /* 4 GiB */
	uint64_t output_max_bytes;     /* 1000000; MAX_OUTPUT_BYTES: of a stream, in a reply */
	uint64_t file_max_bytes;       /* 100 MiB; MAX_FILE_SIZE_MB */
	uint64_t file_ttl_s;           /* 3600; FILE_TTL_SEC; 0 = for ever */
	uint64_t cpus_max_milli;       /* 0 = all there are */

	/* How many */
	uint64_t running_max;       /* 0 = two for each processor */
	uint64_t queue_max;         /* 1000 */
	uint64_t queue_wait_max_s;  /* 60 */
	uint64_t sessions_max;      /* 1000 */
	uint64_t session_ttl_s;     /* 900: if it does not say */
	uint64_t session_ttl_max_s; /* 86400 */
	uint64_t batch_max;         /* 1000 runs in one request */
	uint64_t pool_min;          /* 1: warm cells that wait, of each kind listed in `warm` */
	uint64_t pool_max;          /* 0 = twice as many as may run */
	uint64_t pool_idle_s;       /* 60: after which a pool shrinks to pool_min */
	struct config_list
		warm; /* "python", "python:numpy", "javascript", "python@container": what is kept warm */
	uint64_t history_max; /* 100000 runs are remembered */

	/* What is allowed */
	enum config_reuse reuse; /* same-owner */
	uint64_t reuse_max;      /* 1000 runs in one machine */
	bool allow_process;      /* isolation: process */
	bool allow_host_network;
	struct config_list mounts; /* directories below which sessions may mount */
	char *check;               /* a program that is asked before each run; "" = none */
	uint64_t check_timeout_ms; /* 2000 */
	uint64_t drain_s;          /* 30: that runs have to end after SIGTERM */

	enum log_level log_level;
	enum log_format log_format;
};

enum config_flag_found { CONFIG_FLAG_NOT_OURS, CONFIG_FLAG_ALONE, CONFIG_FLAG_WITH_VALUE };

/* Defaults, file, environment, then flags: `argv` from the first word behind "serve", `--name value` or
 * `--name=value`; booleans alone or `--name=no`; lists with commas, or the flag several times. --config (or
 * HOTCELL_CONFIG) names the file. Any other word is an error. Where one sets a default above the maximum that
 * nobody set, or the other way round, the one that nobody set follows. -1 with *e, which says where it stands. */
int config_load(int argc, char **argv, struct config **ret, struct err *e);
/* The defaults and this text of a file, called `name` in messages. With config_print() one process can hand its
 * settings to another, whose own defaults (another user's) would be different. */
int config_parse(
	const char *name, const char *text, size_t len, struct config **ret, struct err *e);
void config_free(struct config *c);
/* Names, with commas, of those that were read again and are different, but hold from the next start on only. Adds to
 * *ret. */
void config_list_later(const struct config *old, const struct config *c, struct buf *ret);
/* Settings that were read again get what was given at the start, and everything else hangs on: where it listens, as whom
 * it runs, and where it keeps what it has. */
void config_keep_places(const struct config *old, struct config *c);
/* The ids of `user`: a name, or a number that is both. */
int config_find_user(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *e);
/* Whether `user` was given and is not who we are, though only root can become somebody else. */
bool config_user_is_in_vain(const struct config *c);
/* Whether the program of `check` can be started, as far as that can be told beforehand: without it every run would be
 * refused. -1 with *e. */
int config_find_check(const struct config *c, struct err *e);
/* Makes state_dir and what is above it, if need be. As root it is given to `user`, if it is new or empty: what root then
 * makes in it for the service goes to its owner. */
int config_make_state_dir(const struct config *c, struct err *e);
/* As a YAML file with every setting, its sentence and its bounds; config_parse() of it gives the same settings. */
void config_print(const struct config *c, FILE *to);
/* For --help. */
void config_print_flags(FILE *to);
/* Whether a flag is in the table (or is --config), and takes a value. */
enum config_flag_found config_find_flag(const char *word);

#endif
