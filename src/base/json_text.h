/* json_text: JSON that is written as it is made, where building a tree of it first would cost too much. */
#ifndef HOTCELL_BASE_JSON_TEXT_H
#define HOTCELL_BASE_JSON_TEXT_H

#include "base/buf.h"

/* In quotation marks; what is not UTF-8 in it is replaced. NULL: null. */
void json_text_add(struct buf *b, const char *text);

#endif
