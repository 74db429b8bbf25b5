#include <assert.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	(void)argv;
	puts("before");
	fflush(stdout);
	assert(argc > 100 && "went wrong");
	return 0;
}
