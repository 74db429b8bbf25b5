print "before\n";
die "went wrong\n";
