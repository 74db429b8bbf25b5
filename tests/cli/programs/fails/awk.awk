BEGIN {
	print "before"
	fflush()
	print substr("went wrong", 1) > "/nonexistent/went wrong"
}
