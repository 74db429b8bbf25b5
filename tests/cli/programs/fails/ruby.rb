puts "before"
raise "went wrong"
