/* Set by the build; these are for tools that compile a file alone. */
#ifndef HOTCELL_VERSION
#define HOTCELL_VERSION "0.1.0"
#endif
#ifndef HOTCELL_LIBEXECDIR
#define HOTCELL_LIBEXECDIR "/usr/local/libexec"
#endif
#ifndef HOTCELL_SHAREDIR
#define HOTCELL_SHAREDIR "/usr/local/share/hotcell"
#endif
