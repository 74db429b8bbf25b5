/* hotcell-daemon: the commands of hotcell that need the service's libraries. Started by hotcell. */
#include "cli/cli.h"

#include <string.h>

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return cmd_serve(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "keys") == 0)
		return cmd_keys(argc - 1, argv + 1);
	return complain("this program is started by hotcell");
}
