/* pids: what a warm program is called.
 *
 * Programs that start from one snapshot would all have the number that the host gave their VMM, which
 * is the same in every cell; libraries notice by another number that they are another process (see
 * warm.c). So a warm program's own number is made up, above all that a cell's namespace gives away. Its
 * children have the host's numbers; to them their parent is the made-up one too. */
#ifndef HOTCELL_VMM_PIDS_H
#define HOTCELL_VMM_PIDS_H

/* From now on the process that the host knows as `host` is `shown` to programs. */
void pids_set(int host, int shown);
void pids_get(int *ret_host, int *ret_shown);

/* What a program is to see of a number of the host's, and the host of a program's. Negative ones are
 * groups. The host's number of a process that is shown by another is nobody's. */
int pids_shown(int host);
int pids_host(int shown);

#endif
