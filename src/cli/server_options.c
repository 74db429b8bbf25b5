#include "cli/server_options.h"

#include <stdlib.h>

enum { KEY_SERVER = 0x400, KEY_KEY };

static const struct argp_option table[] = {
	{ "server", KEY_SERVER, "URL", 0,
		"the service: http://HOST:PORT, https://HOST or unix:/PATH. Default: $HOTCELL_SERVER",
		0 },
	{ "key", KEY_KEY, "KEY", 0,
		"key for it. Default: $HOTCELL_API_KEY, else what ~/.config/hotcell/key has, which is not read for a "
		"unix socket",
		0 },
	{ 0 },
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct server_options *o = state->input;

	switch (key) {
	case KEY_SERVER:
		o->url = value;
		return 0;
	case KEY_KEY:
		o->key = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp server_options_argp = { table, on_option, NULL, NULL, NULL, NULL, NULL };

bool server_options_are_given(const struct server_options *o)
{
	const char *named = getenv("HOTCELL_SERVER");

	return o->url || (named && *named);
}
