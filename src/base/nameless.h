/* nameless: files that have no name, so that nobody finds half of one, and nothing is left of it after a crash. */
#ifndef HOTCELL_BASE_NAMELESS_H
#define HOTCELL_BASE_NAMELESS_H

/* In the file system of `dir_fd`. Where it knows no such files, one is made as `spare_name` there, which loses the name at
 * once and can get none later: it is to be copied then. A descriptor to read and write, or -1 with errno. */
int nameless_open(int dir_fd, const char *spare_name);
/* All of one file behind what is in the other: 0, or -1 with errno. */
int nameless_copy(int from, int to);

#endif
