/* json: results as JSON. Whatever a program printed becomes valid UTF-8 first. */
#ifndef HOTCELL_CLI_JSON_H
#define HOTCELL_CLI_JSON_H

#include "hotcell.h"

#include <jansson.h>

json_t *json_text(const char *data, size_t len);
json_t *json_result(const struct hotcell_result *result);
/* Prints it on one line and releases it. 0, or -1 (told on stderr) if stdout takes no more. */
int json_print(json_t *value);

#endif
