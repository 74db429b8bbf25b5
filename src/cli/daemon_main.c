/* hotcell-daemon: the commands of hotcell that need the service's libraries. Started by hotcell. */
#include "cli/cli.h"

#include <string.h>

int main(int argc, char **argv)
{
	if (strcmp(argv[0], "serve") == 0)
		return cmd_serve(argc, argv);
	if (strcmp(argv[0], "keys") == 0)
		return cmd_keys(argc, argv);
	return complain("this program is started by hotcell");
}
