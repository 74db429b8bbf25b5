/* vmm_start: how a keeper starts hotcell-vmm, and how one hotcell-vmm starts another.
 *
 *	hotcell-vmm [--open-files=N] [--memory=BYTES] [--trace] ENV-COUNT [ENV…] PROGRAM ARGV0 [ARG…]
 *	hotcell-vmm --tell-host        prints what KVM stands on here: pvm, svm or vt-x
 *
 * The guest's environment travels as arguments: the VMM's own is empty, so that nothing in it can
 * change what the VMM does. Descriptors 0, 1 and 2 are the guest's; those below are the VMM's, and
 * lie above every number that a guest can have. */
#ifndef HOTCELL_WIRE_VMM_START_H
#define HOTCELL_WIRE_VMM_START_H

enum vmm_fd {
	VMM_GUEST_FDS = 1000,       /* a guest's descriptors are below this */
	VMM_KVM_FD = VMM_GUEST_FDS, /* /dev/kvm */
	VMM_SELF_FD,                /* the program hotcell-vmm, to be executed again */
	VMM_PROC_FD,     /* a /proc that is mounted nowhere, for its own pagemap; may be absent */
	VMM_WARM_FD,     /* a socket to the keeper, if it is to be kept warm; may be absent */
	VMM_LINE_FD,     /* likewise, to the engine */
	VMM_SNAPSHOT_FD, /* what to start from, read-only; may be absent */
	VMM_STATS_FD,    /* the page of wire/vmm_stats.h; may be absent */
	VMM_SPARE_FD, /* memory that another machine had before; may be absent: see vmm/spare.h */
	VMM_MOTHER_FD, /* a socket to the keeper, if it is to make machines (vmm_mother.h); may be absent */
	VMM_OWN_FDS,                    /* the VMM's own go from here on */
	VMM_FDS_MAX = VMM_OWN_FDS + 64, /* RLIMIT_NOFILE of a VMM */
};

#define VMM_SPARE_SIZE (32UL << 20)

#endif
