/* Not written yet: removed before this branch is landed. */
#include "service/mirror.h"
#include "hotcell.h"

#define WEAK __attribute__((weak))
WEAK int mirror_open(const char *dir, const char *name, uint64_t max_bytes, struct mirror **ret, struct err *e) { (void)dir; (void)name; (void)max_bytes; (void)ret; return err_set(e, ERR_UNAVAILABLE, "not written yet"); }
WEAK void mirror_close(struct mirror *m) { (void)m; }
WEAK void mirror_sweep(const char *dir) { (void)dir; }
WEAK int mirror_open_blob(struct mirror *m, struct err *e) { (void)m; (void)e; return -1; }
WEAK int mirror_put(struct mirror *m, const char *path, int fd, bool generated, struct err *e) { (void)m; (void)path; (void)fd; (void)generated; (void)e; return -1; }
WEAK int mirror_put_data(struct mirror *m, const char *path, const void *data, size_t len, struct err *e) { (void)m; (void)path; (void)data; (void)len; (void)e; return -1; }
WEAK int mirror_remove(struct mirror *m, const char *path, struct err *e) { (void)m; (void)path; (void)e; return -1; }
WEAK void mirror_list(struct mirror *m, struct mirror_file **ret, size_t *n) { (void)m; (void)ret; *n = 0; }
WEAK void mirror_files_free(struct mirror_file *f, size_t n) { (void)f; (void)n; }
WEAK const char *mirror_path(const struct mirror *m) { (void)m; return ""; }
WEAK void hotcell_interrupt(struct hotcell_work *work) { (void)work; }
