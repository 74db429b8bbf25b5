/* own: ownership that stands in the declaration.
 *
 *	auto_close int fd = open(...);      closed when the scope ends
 *	*ret_fd = take_fd(&fd);             given on: the scope no longer owns it
 */
#ifndef HOTCELL_BASE_OWN_H
#define HOTCELL_BASE_OWN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void own_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* The pointer's own type is not known here: copied, since reading it as a void * would break the
 * compiler's rules of aliasing. */
static inline void own_free(void *pointer)
{
	void *owned;

	memcpy(&owned, pointer, sizeof(owned));
	free(owned);
}

static inline void own_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define auto_close  __attribute__((cleanup(own_close)))
#define auto_free   __attribute__((cleanup(own_free)))
#define auto_fclose __attribute__((cleanup(own_fclose)))
#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(*(p)) taken_ = *(p);                                                    \
		*(p) = NULL;                                                                       \
		taken_;                                                                            \
	})
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
