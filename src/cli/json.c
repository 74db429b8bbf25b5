#include "cli/json.h"

#include "base/utf8.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *json_text(const char *data, size_t len)
{
	auto_buf struct buf clean = { 0 };

	utf8_add_replaced(&clean, data, len);
	buf_add(&clean, "", 0);
	return json_stringn_nocheck(clean.data, clean.len);
}

/* Past stdio, which gives up on a pipe that does not block (as some programs hand them over). */
static int write_all_waiting(const char *data, size_t len)
{
	while (len) {
		struct pollfd room = { .fd = STDOUT_FILENO, .events = POLLOUT };
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

int json_print(json_t *value)
{
	char *text = json_dumps(value, 0);
	bool failed;

	json_decref(value);
	failed = write_all_waiting(text, strlen(text)) || write_all_waiting("\n", 1);
	free(text);
	if (failed)
		complain("write to standard output: %s", strerror(errno));
	return failed ? -1 : 0;
}
