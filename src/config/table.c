#include "config/table.h"

#include "config/places.h"

#include <assert.h>
#include <string.h>

#define AT(member) offsetof(struct config, member)
#define KiB        1024ULL
#define MiB        (1024 * KiB)
#define GiB        (1024 * MiB)
#define DAY_S      86400ULL
#define YEAR_S     (365 * DAY_S)

static const char *const reuse_words[] = { "same-owner", "never", "always", NULL };
static const char *const level_words[] = { "debug", "info", "warning", "error", NULL };
static const char *const format_words[] = { "plain", "json", NULL };

static_assert(CONFIG_REUSE_SAME_OWNER == 0 && CONFIG_REUSE_NEVER == 1 && CONFIG_REUSE_ALWAYS == 2,
	"reuse_words has their order");
static_assert(LOG_LEVEL_DEBUG == 0 && LOG_LEVEL_INFO == 1 && LOG_LEVEL_WARNING == 2 &&
		      LOG_LEVEL_ERROR == 3,
	"level_words has their order");
static_assert(LOG_FORMAT_PLAIN == 0 && LOG_FORMAT_JSON == 1, "format_words has their order");

/* As a browser sends it. A path or a slash behind it, or no scheme, would never be met. */
static bool is_origin(const char *text)
{
	const char *host = strstr(text, "://");

	if (strcmp(text, "*") == 0)
		return true;
	return host && host != text && host[3] && !strpbrk(host + 3, "/?#@ ");
}

static bool is_warm_name(size_t len)
{
	return len > 0 && len <= CONFIG_WARM_NAME_MAX;
}

/* "python", "python:data", "python@container", "python:data@container". Which languages and profiles there are is not
 * known here. */
static bool is_warm(const char *text)
{
	const char *at = strchrnul(text, '@');
	const char *colon = memchr(text, ':', (size_t)(at - text));

	if (*at && strcmp(at + 1, "vm") != 0 && strcmp(at + 1, "container") != 0)
		return false;
	if (colon && !is_warm_name((size_t)(at - colon - 1)))
		return false;
	return is_warm_name((size_t)((colon ? colon : at) - text));
}

/* The bounds of what a run may have are those of src/wire/limits.c, which is above us; a test compares. */
const struct config_row config_rows[] = {
	{ "Where it listens", "host", CONFIG_TEXT, AT(host), "127.0.0.1", 0, 255,
		"address of the HTTP API; empty: no TCP at all", .old_name = "HOST" },
	{ NULL, "port", CONFIG_NUMBER, AT(port), "8000", 1, 65535, "TCP port of the HTTP API",
		.old_name = "PORT", .old_scale = 1 },
	{ NULL, "socket", CONFIG_PATH, AT(socket),
		"/run/hotcell/hotcell.sock as root, else $XDG_RUNTIME_DIR/hotcell.sock, else "
		"/tmp/hotcell-UID/hotcell.sock",
		1, 107, "unix socket for local users; none: there is none",
		.find_default = places_socket, .none = "none" },
	{ NULL, "no_auth", CONFIG_YES_NO, AT(no_auth), "no", 0, 0,
		"serve without a key too, though there are keys or other machines can reach it" },
	{ NULL, "cors_origins", CONFIG_LIST, AT(cors_origins), "", 0, 0,
		"web pages that may call the API, such as https://example.org",
		.is_entry = is_origin, .entries = "origins without a path, or *" },
	{ NULL, "allowed_hosts", CONFIG_LIST, AT(allowed_hosts), "", 0, 0,
		"names in the Host header that are taken on loopback, besides localhost and the "
		"like" },
	{ NULL, "connections_max", CONFIG_NUMBER, AT(connections_max), "10000", 1, 1000000,
		"connections at one time" },
	{ NULL, "connection_idle_s", CONFIG_S, AT(connection_idle_s), "60s", 1, DAY_S,
		"silence after which a connection is closed" },
	{ NULL, "request_bytes_max", CONFIG_SIZE, AT(request_bytes_max), "16M", KiB, GiB,
		"largest JSON body of a request" },

	{ "Who and where it is", "user", CONFIG_TEXT, AT(user),
		"hotcell if there is such a user, else a number that nobody has", 1, 255,
		"user that the service becomes when it is started as root",
		.find_default = places_user },
	{ NULL, "state_dir", CONFIG_PATH, AT(state_dir),
		"/var/lib/hotcell as root, else $XDG_STATE_HOME/hotcell, else "
		"~/.local/state/hotcell",
		1, 4000, "directory of stored files, keys and history",
		.find_default = places_state_dir },
	{ NULL, "language_dirs", CONFIG_PATHS, AT(language_dirs), "", 0, 0,
		"directories with further language files; later ones win" },

	{ "What a run has, and may ask for", "timeout_default_ms", CONFIG_MS,
		AT(timeout_default_ms), "2s", 1, DAY_S * 1000,
		"time on the clock until a run is ended", .under = "timeout_max_ms" },
	{ NULL, "timeout_max_ms", CONFIG_MS, AT(timeout_max_ms), "60s", 1, DAY_S * 1000,
		"longest time on the clock that may be asked for",
		.old_name = "MAX_EXEC_TIMEOUT_MS", .old_scale = 1 },
	{ NULL, "cpu_default_ms", CONFIG_MS, AT(cpu_default_ms), "5s", 1, DAY_S * 1000,
		"processor time of a run", .under = "cpu_max_ms", .old_name = "CPU_TIME_LIMIT_SEC",
		.old_scale = 1000 },
	{ NULL, "cpu_max_ms", CONFIG_MS, AT(cpu_max_ms), "60s", 1, DAY_S * 1000,
		"most processor time that may be asked for" },
	{ NULL, "memory_default_bytes", CONFIG_SIZE, AT(memory_default_bytes), "256M", 4 * MiB,
		1024 * GiB, "memory of a run, its files included", .under = "memory_max_bytes",
		.old_name = "MEMORY_LIMIT_MB", .old_scale = MiB },
	{ NULL, "memory_max_bytes", CONFIG_SIZE, AT(memory_max_bytes), "2G", 4 * MiB, 1024 * GiB,
		"most memory that may be asked for" },
	{ NULL, "processes_default", CONFIG_NUMBER, AT(processes_default), "64", 1, 32768,
		"processes and threads of a run at one time", .under = "processes_max" },
	{ NULL, "processes_max", CONFIG_NUMBER, AT(processes_max), "1024", 1, 32768,
		"most processes and threads that may be asked for" },
	{ NULL, "disk_default_bytes", CONFIG_SIZE, AT(disk_default_bytes), "256M", 64 * KiB,
		1024 * GiB, "all files of a run together", .under = "disk_max_bytes" },
	{ NULL, "disk_max_bytes", CONFIG_SIZE, AT(disk_max_bytes), "4G", 64 * KiB, 1024 * GiB,
		"most room for files that may be asked for" },
	{ NULL, "output_max_bytes", CONFIG_SIZE, AT(output_max_bytes), "1000000", KiB, GiB,
		"most of each output stream in a reply; the rest is cut",
		.old_name = "MAX_OUTPUT_BYTES", .old_scale = 1 },
	{ NULL, "file_max_bytes", CONFIG_SIZE, AT(file_max_bytes), "100M", KiB, 1024 * GiB,
		"largest file that can be stored", .old_name = "MAX_FILE_SIZE_MB",
		.old_scale = MiB },
	{ NULL, "file_ttl_s", CONFIG_S, AT(file_ttl_s), "3600s", 0, 100 * YEAR_S,
		"time after which a stored file is removed; 0: never", .old_name = "FILE_TTL_SEC",
		.old_scale = 1 },
	{ NULL, "cpus_max_milli", CONFIG_NUMBER, AT(cpus_max_milli), "0", 0, 1024000,
		"most processors that a run may keep busy, in thousandths; 0: all there are" },

	{ "How many", "running_max", CONFIG_NUMBER, AT(running_max), "0", 0, 100000,
		"runs at one time; 0: two for each processor" },
	{ NULL, "queue_max", CONFIG_NUMBER, AT(queue_max), "1000", 0, 1000000,
		"runs that may wait for their turn" },
	{ NULL, "queue_wait_max_s", CONFIG_S, AT(queue_wait_max_s), "60s", 1, DAY_S,
		"longest wait for a turn" },
	{ NULL, "sessions_max", CONFIG_NUMBER, AT(sessions_max), "1000", 0, 1000000,
		"sessions at one time" },
	{ NULL, "session_ttl_s", CONFIG_S, AT(session_ttl_s), "900s", 1, YEAR_S,
		"life of a session that does not say how long", .under = "session_ttl_max_s" },
	{ NULL, "session_ttl_max_s", CONFIG_S, AT(session_ttl_max_s), "86400s", 1, YEAR_S,
		"longest life of a session that may be asked for" },
	{ NULL, "batch_max", CONFIG_NUMBER, AT(batch_max), "1000", 1, 100000,
		"runs in one batch request" },
	{ NULL, "pool_min", CONFIG_NUMBER, AT(pool_min), "1", 0, 10000,
		"warm cells that always wait, of each kind in `warm`", .under = "pool_max" },
	{ NULL, "pool_max", CONFIG_NUMBER, AT(pool_max), "0", 0, 10000,
		"most warm cells that wait, of each kind; 0: twice as many as may run" },
	{ NULL, "pool_idle_s", CONFIG_S, AT(pool_idle_s), "60s", 1, DAY_S,
		"time without demand after which a pool shrinks to pool_min" },
	{ NULL, "warm", CONFIG_LIST, AT(warm), "python, python:data, javascript", 0, 0,
		"what is kept warm: language, language:profile, language@isolation",
		.is_entry = is_warm,
		.entries = "LANGUAGE[:PROFILE][@vm or @container], names of at most 63 bytes" },
	{ NULL, "history_max", CONFIG_NUMBER, AT(history_max), "100000", 0, 100000000,
		"runs that are remembered" },

	{ "What is allowed", "reuse", CONFIG_CHOICE, AT(reuse), "same-owner", 0, 0,
		"for whom a machine is used again after it was reset", .choices = reuse_words },
	{ NULL, "reuse_max", CONFIG_NUMBER, AT(reuse_max), "1000", 1, 1000000,
		"runs in one machine before it is replaced" },
	{ NULL, "allow_process", CONFIG_YES_NO, AT(allow_process), "no", 0, 0,
		"whether runs may ask for isolation: process, which is none" },
	{ NULL, "allow_host_network", CONFIG_YES_NO, AT(allow_host_network), "no", 0, 0,
		"whether runs may ask for network: host" },
	{ NULL, "mounts", CONFIG_PATHS, AT(mounts), "", 0, 0,
		"directories of this machine below which sessions may mount" },
	{ NULL, "check", CONFIG_PATH, AT(check), "", 0, 4000,
		"program that is asked before each run and may refuse it; empty: none",
		.none = "" },
	{ NULL, "check_timeout_ms", CONFIG_MS, AT(check_timeout_ms), "2s", 1, 60000,
		"time that this program has; a run is refused after it" },
	{ NULL, "drain_s", CONFIG_S, AT(drain_s), "30s", 0, DAY_S,
		"time that runs have to end when the service is stopped" },

	{ "What it says", "log_level", CONFIG_CHOICE, AT(log_level), "info", 0, 0,
		"least important events that are told", .choices = level_words,
		.old_name = "LOG_LEVEL" },
	{ NULL, "log_format", CONFIG_CHOICE, AT(log_format), "plain", 0, 0,
		"form of a line of the log", .choices = format_words, .old_name = "LOG_FORMAT" },
};

static_assert(sizeof(config_rows) / sizeof(config_rows[0]) == CONFIG_ROWS, "the header's number");

const struct config_row *config_find_row(const char *name)
{
	for (int i = 0; i < CONFIG_ROWS; i++)
		if (strcmp(config_rows[i].name, name) == 0)
			return &config_rows[i];
	return NULL;
}
