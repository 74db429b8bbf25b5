<?php
echo "hello\n";
echo "stdin: ", fgets(STDIN);
foreach (array_slice($argv, 1) as $arg)
	echo "arg: $arg\n";
echo "file: ", file_get_contents('data/input.txt');
file_put_contents('result.txt', "written\n");
fwrite(STDERR, "to stderr\n");
exit(3);
