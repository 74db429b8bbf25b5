/* file_kind: what a name in a workspace stands for. */
#ifndef HOTCELL_BASE_FILE_KIND_H
#define HOTCELL_BASE_FILE_KIND_H

enum file_kind { FILE_REGULAR = 1, FILE_DIRECTORY, FILE_SYMLINK, FILE_OTHER };

#endif
