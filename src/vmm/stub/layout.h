/* layout: where things are in the first 2 MiB of a guest, physical and virtual alike. Shared by the
 * VMM and the stub, so it holds nothing but numbers.
 *
 *	0x001000  page tables of these 2 MiB, GDT, IDT, TSS         supervisor
 *	0x010000  gate: the instruction that leaves, and the return  as the stub; read-only
 *	0x011000  exception handlers, page table editor              supervisor, read-only
 *	0x012000  stub: system calls that need no exit               executable, read-only (below)
 *	0x018000  the stub's stack and its copy of the registers     as the host needs it (below)
 *	0x019000  list for the page table editor                     supervisor
 *	0x01f000  shared page                                        as the stub's stack
 *	0x020000  output that was not passed on yet                  as the stub's stack
 *	0x100000  more page tables                                   supervisor
 *
 * On real hardware SYSCALL enters ring 0, and the stub's code and data are the supervisor's. A PVM host
 * runs the stub in ring 3: there its data belong to the guest, and the VMM believes nothing of them. */
#ifndef HOTCELL_VMM_LAYOUT_H
#define HOTCELL_VMM_LAYOUT_H

#define AT_PML4             0x1000
#define AT_PDPT             0x2000
#define AT_PD               0x3000
#define AT_PT               0x4000
#define AT_GDT              0x5000
#define AT_IDT              0x6000
#define AT_TSS              0x8000
#define AT_GATE             0x10000
#define AT_HANDLERS         0x11000
#define AT_EDITOR           0x11400
#define AT_STUB             0x12000
#define AT_STUB_END         0x18000
#define AT_STUB_DATA        0x18000
#define AT_STUB_STACK_TOP   0x19000
#define AT_EDITS            0x19000
#define AT_EDITS_END        0x1d000
#define AT_KERNEL_STACK     0x1e000
#define AT_KERNEL_STACK_TOP 0x1f000
#define AT_SHARED           0x1f000
#define AT_OUT              0x20000
#define AT_OUT_SIZE         0x10000
#define AT_TABLES           0x100000
#define LOW_END             0x200000 /* a program's addresses begin here */
/* … and end here. Above it the page table editor sees tables that have no place below; and an
 * instruction at the very end of the lower half would make SYSRET return to no address at all, which
 * some processors complain about in ring 0. */
#define USER_END 0x7fff00000000

#define GATE_PORT   0x10 /* OUT here is a system call */
#define EDITED_PORT 0x7f /* the page table editor is done */
#define FAULT_PORT  0x80 /* + vector: an exception */

#endif
