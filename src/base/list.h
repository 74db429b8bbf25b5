/* list: a ring of links inside of other structs. */
#ifndef HOTCELL_BASE_LIST_H
#define HOTCELL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

/* Also of one that is in no list, if it was initialised. */
static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

static inline void list_add_last(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* `at` may be removed, but nothing else. NOLINTBEGIN(bugprone-macro-parentheses): names, no expressions */
#define list_each(at, next_, head)                                                                 \
	for (struct list *at = (head)->next, *next_ = at->next; at != (head);                      \
		at = next_, next_ = at->next)

/* NOLINTEND(bugprone-macro-parentheses) */

#endif
