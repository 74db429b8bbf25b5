/* near: which of several names a mistyped one was meant to be.
 *
 *	struct near n = { .typed = "pyhton" };
 *	near_offer(&n, "perl"), near_offer(&n, "python");
 *	n.best is "python"; NULL if nothing offered was near
 */
#ifndef HOTCELL_BASE_NEAR_H
#define HOTCELL_BASE_NEAR_H

struct near {
	const char *typed;
	const char *best;  /* one of those offered, not a copy; the first of equally near ones */
	unsigned distance; /* of best */
};

void near_offer(struct near *n, const char *name);

#endif
