/* places: defaults that depend on who starts the service and on which machine. To be freed; NULL if nothing tells. */
#ifndef HOTCELL_CONFIG_PLACES_H
#define HOTCELL_CONFIG_PLACES_H

#include "base/err.h"

char *places_socket(void);
/* Whether nobody but us and root can have put there what is found: for a socket that nobody named, in a directory that may
 * have been another's idea, as /tmp is everybody's. It need not be there yet; its directory must. -1 with *e. */
int places_check_socket(const char *path, struct err *e);
char *places_state_dir(void);
char *places_user(void);

/* The configuration files of which the first that is there is read, if none is named. Returns how many. */
enum { PLACES_CONFIG_FILES = 2 };
unsigned places_config_files(char *ret[PLACES_CONFIG_FILES]);

#endif
