/* json_text: JSON that is written as it is made, where building a tree of it first would cost too much. */
#ifndef HOTCELL_BASE_JSON_TEXT_H
#define HOTCELL_BASE_JSON_TEXT_H

#include "base/buf.h"

/* What stands for this byte within quotation marks, into `ret`; NULL if it may stand for itself. */
const char *json_text_escape(char c, char ret[8]);
/* In quotation marks; what is not UTF-8 in it is replaced. NULL: null. */
void json_text_add(struct buf *b, const char *text);

#endif
