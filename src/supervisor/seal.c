#include "supervisor/seal.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"
#include "language/language.h"
#include "wire/warden_wire.h"

#include <errno.h>
#include <string.h>

enum { DIRS_MAX = 16 };

struct seal {
	struct registry *registry;
	struct frame_out out;
};

struct seal *seal_open(const char *share, const struct config *config)
{
	struct seal *s = xalloc(sizeof(*s));
	auto_free char *shipped = path_join(share, "languages");
	auto_free char *own = language_user_dir();
	const char *dirs[DIRS_MAX];
	unsigned count = 0;

	dirs[count++] = shipped;
	/* As the engine does: where the daemon is the same user, it reads those, too. */
	if (own && geteuid() != 0)
		dirs[count++] = own;
	for (size_t i = 0; i < config->language_dirs.count && count < DIRS_MAX; i++)
		dirs[count++] = config->language_dirs.at[i];
	s->registry = registry_load(dirs, count, NULL, NULL);
	return s;
}

void seal_free(struct seal *s)
{
	if (!s)
		return;
	registry_free(s->registry);
	free(s);
}

static int allow(struct seal *s, int socket_fd, char **needs)
{
	for (; *needs; needs++) {
		put_path(&s->out, WARDEN_ALLOW, &(struct msg_path){ .path = *needs });
		if (frame_send(socket_fd, &s->out, -1))
			return -1;
	}
	return 0;
}

int seal_send(struct seal *s, int socket_fd, struct err *e)
{
	for (unsigned i = 0; i < registry_count(s->registry); i++) {
		const struct language *l = registry_at(s->registry, i);

		for (unsigned k = 0; k < l->find_count; k++) {
			char **needs = language_needs(l, &l->find[k]);
			int failed = allow(s, socket_fd, needs);

			strings_free(needs);
			if (failed)
				return err_sys(e, "tell a warden what languages need");
		}
	}
	put_nothing(&s->out, WARDEN_SEAL);
	return frame_send(socket_fd, &s->out, -1) ? err_sys(e, "seal a warden") : 0;
}
