#include "base/near.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40, FARTHEST = 2 };

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Letters to insert, delete or replace to get from a to b, whatever their case. Keeps one row of
 * the usual table: row[j] is the distance between the first i letters of a and the first j of b. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[LONGEST + 1];
	unsigned b_len = (unsigned)strlen(b);

	for (unsigned j = 0; j <= b_len; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= b_len; j++) {
			int same = tolower((unsigned char)a[i - 1]) ==
				   tolower((unsigned char)b[j - 1]);
			unsigned here = least(row[j] + 1, row[j - 1] + 1, diagonal + !same);

			diagonal = row[j];
			row[j] = here;
		}
	}
	return row[b_len];
}

void near_offer(struct near *n, const char *name)
{
	size_t len = strlen(n->typed);
	unsigned limit = FARTHEST;
	unsigned distance;

	if (len > LONGEST || strlen(name) > LONGEST)
		return;
	/* Two changes make anything of a short name: "go" would be near to "c". */
	if (len <= 3)
		limit = 1;
	distance = edit_distance(n->typed, name);
	if (distance > limit || distance >= len)
		return;
	if (!n->best || distance < n->distance) {
		n->best = name;
		n->distance = distance;
	}
}
