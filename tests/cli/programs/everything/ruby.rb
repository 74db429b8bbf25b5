puts "hello"
puts "stdin: #{$stdin.gets.chomp}"
ARGV.each { |arg| puts "arg: #{arg}" }
puts "file: #{File.read('data/input.txt').strip}"
File.write("result.txt", "written\n")
warn "to stderr"
exit 3
