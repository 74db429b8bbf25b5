import sys

print("hello")
print("stdin:", input())
for arg in sys.argv[1:]:
    print("arg:", arg)
with open("data/input.txt") as file:
    print("file:", file.read().strip())
with open("result.txt", "w") as file:
    file.write("written\n")
print("to stderr", file=sys.stderr)
sys.exit(3)
