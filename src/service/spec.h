/* spec: what is to be run, as the API was asked, checked and with defaults filled in. Owns all that it holds. */
#ifndef HOTCELL_SERVICE_SPEC_H
#define HOTCELL_SERVICE_SPEC_H

#include "config/config.h"
#include "hotcell.h"
#include "store/store.h"

#include <stdbool.h>

struct spec_file {
	char *path;
	char *host_path; /* of a stored file, or NULL */
	char *data;
	size_t data_len;
};

struct spec {
	char *language;
	char *code;
	size_t code_len;
	char *entry;
	struct spec_file *files;
	size_t files_count;
	char **args; /* NULL-terminated, or NULL */
	char **env;
	char *stdin_data; /* NULL: none */
	size_t stdin_len;
	enum hotcell_isolation isolation;
	enum hotcell_network network;
	struct hotcell_limits limits;
	uint64_t max_output;
	bool last_line;
	bool detach;
	bool streams; /* somebody follows its output */
	enum config_reuse reuse;
	char *profile;
	char *user; /* whom the caller runs it for, or NULL */
	char *session_id;
	char *cache_key; /* NULL: its result is not kept for others like it */
	bool is_bash;    /* a session's …/bash */
};

void spec_free(struct spec *spec);

#endif
