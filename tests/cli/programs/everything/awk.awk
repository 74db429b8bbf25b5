BEGIN {
	print "hello"
	getline line < "-"
	print "stdin: " line
	for (i = 1; i < ARGC; i++)
		print "arg: " ARGV[i]
	getline line < "data/input.txt"
	print "file: " line
	print "written" > "result.txt"
	print "to stderr" > "/dev/stderr"
	exit 3
}
