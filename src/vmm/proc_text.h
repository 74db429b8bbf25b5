/* proc_text: what stands in the made-up files. Each adds a file's content, or a link's target. */
#ifndef HOTCELL_VMM_PROC_TEXT_H
#define HOTCELL_VMM_PROC_TEXT_H

#include "base/buf.h"
#include "vmm/guest.h"

typedef void proc_text(struct guest *g, struct buf *ret);

/* about the program */
proc_text text_exe, text_cwd, text_root, text_self, text_maps, text_status, text_stat, text_statm;
proc_text text_cmdline, text_environ, text_comm, text_limits;
/* about its machine */
proc_text text_cpuinfo, text_meminfo, text_machine_stat, text_uptime, text_loadavg, text_version;
proc_text text_release, text_hostname, text_uuid, text_boot_id;

#endif
