print("hello")
print("stdin: " .. io.read("l"))
for _, word in ipairs(arg) do
	print("arg: " .. word)
end
print("file: " .. io.open("data/input.txt"):read("l"))
local file = io.open("result.txt", "w")
file:write("written\n")
file:close()
io.stderr:write("to stderr\n")
os.exit(3)
