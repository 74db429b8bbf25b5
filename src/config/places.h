/* places: defaults that depend on who starts the service and on which machine. To be freed; NULL if nothing tells. */
#ifndef HOTCELL_CONFIG_PLACES_H
#define HOTCELL_CONFIG_PLACES_H

char *places_socket(void);
char *places_state_dir(void);
char *places_user(void);

/* The configuration files of which the first that is there is read, if none is named. Returns how many. */
enum { PLACES_CONFIG_FILES = 2 };
unsigned places_config_files(char *ret[PLACES_CONFIG_FILES]);

#endif
