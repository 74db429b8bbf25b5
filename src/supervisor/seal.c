#include "supervisor/seal.h"

#include "base/buf.h"
#include "language/language.h"
#include "supervisor/places.h"
#include "wire/warden_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct seal {
	struct registry *registry;
	struct frame_out out;
};

struct seal *seal_open(const char *share, const struct config *config)
{
	struct seal *s = xalloc(sizeof(*s));

	s->registry = places_languages(share, config);
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
