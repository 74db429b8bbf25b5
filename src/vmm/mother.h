/* mother: makes machines for one run each by forking (wire/vmm_mother.h). */
#ifndef HOTCELL_VMM_MOTHER_H
#define HOTCELL_VMM_MOTHER_H

/* Does what the keeper says. Returns only in its children, each of which is to be a machine: it has its sockets then, and
 * leads a session. */
void mother_serve(void);

#endif
