#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char line[256];
	FILE *file;

	puts("hello");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	line[strcspn(line, "\n")] = '\0';
	printf("stdin: %s\n", line);
	for (int i = 1; i < argc; i++)
		printf("arg: %s\n", argv[i]);
	file = fopen("data/input.txt", "r");
	if (!file || !fgets(line, sizeof(line), file))
		return 1;
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	printf("file: %s\n", line);
	file = fopen("result.txt", "w");
	if (!file)
		return 1;
	fputs("written\n", file);
	fclose(file);
	fputs("to stderr\n", stderr);
	return 3;
}
