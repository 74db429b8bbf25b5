/* seal: what wardens may show of the machine is told to them here, by whom the daemon cannot speak for: what the
 * languages of the share directory and of the config need. After it they take no more. */
#ifndef HOTCELL_SUPERVISOR_SEAL_H
#define HOTCELL_SUPERVISOR_SEAL_H

#include "config/config.h"

struct seal;

/* Reads the languages. Never fails: one that is wrong is left out, and the daemon says so. */
struct seal *seal_open(const char *share, const struct config *config);
void seal_free(struct seal *s);
/* Tells a warden that has just been started. */
int seal_send(struct seal *s, int socket_fd, struct err *e);

#endif
