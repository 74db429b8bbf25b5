use strict;
use warnings;

print "hello\n";
my $line = <STDIN>;
print "stdin: $line";
print "arg: $_\n" for @ARGV;
open(my $in, '<', 'data/input.txt') or die;
print "file: ", <$in>;
close($in);
open(my $out, '>', 'result.txt') or die;
print $out "written\n";
close($out);
print STDERR "to stderr\n";
exit 3;
