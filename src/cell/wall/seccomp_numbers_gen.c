/* Runs at build time: prints the number of every row of the table as C. */
#include "cell/wall/seccomp.h"

#include <seccomp.h>
#include <stdio.h>

int main(void)
{
	puts("#include \"cell/wall/seccomp.h\"\n\nconst int seccomp_numbers[] = {");
	for (unsigned i = 0; i < seccomp_table_count; i++)
		printf("\t%d, /* %s */\n", seccomp_syscall_resolve_name(seccomp_table[i].call),
			seccomp_table[i].call);
	puts("};");
	return 0;
}
