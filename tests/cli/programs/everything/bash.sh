set -euo pipefail
words=(hello)
echo "${words[0]}"
IFS= read -r line
echo "stdin: $line"
for arg in "$@"; do
	echo "arg: $arg"
done
echo "file: $(<data/input.txt)"
echo written >result.txt
echo "to stderr" >&2
exit 3
