# session: `bash session.sh` runs one program after the other in this shell, so that the next one finds what the one
# before has left: variables, functions, options, directory, traps. What a request is made of, ../python/warm.py tells;
# the program is always read from its file.
#
#   exit        is a function here, and ends the program, not the shell: from then on a DEBUG trap makes bash return
#               from all functions and from the program's file, as it does with extdebug for a trap that gives 2.
#   set -e      has the same end: our ERR trap is there before bash would exit.
#   SIGINT      ends the command that runs, and then the program in the same way.
#   otherwise   what ends the shell, like exec, an unset variable with set -u, or traps of the program's own in place
#               of ours, ends it, and with it all that was to be kept: who waits for the answer sees that.
#
# Programs are read outside of any function, else what they declare would be local to it, and without our descriptors,
# which are moved below what a program may open. All names of ours begin with __hotcell.

exit() {
	local status=${1-$?}

	[[ $BASHPID == "$__hotcell_pid" ]] || builtin exit "$status"
	__hotcell_leave "$status"
}

__hotcell_leave() {
	__hotcell_status=$(($1 & 255))
	shopt -s extdebug
	trap __hotcell_skip DEBUG
}

# Below the program's file there are this function and the script itself.
__hotcell_skip() {
	((${#FUNCNAME[@]} <= 2)) || return 2
	trap - DEBUG
	shopt -u extdebug
	set -E
}

__hotcell_leave_despite_e() {
	if [[ $- == *e* ]]; then
		set +e
		__hotcell_had_e=1
	fi
	__hotcell_leave "$1"
}

__hotcell_fail() {
	local status=$?

	[[ $- == *e* && $BASHPID == "$__hotcell_pid" ]] || return "$status"
	__hotcell_leave_despite_e "$status"
}

# The command that it ended has failed, too: with set -e bash would exit before ours is done.
__hotcell_interrupt() {
	[[ ! $__hotcell_runs ]] || __hotcell_leave_despite_e 130
}

__hotcell_list() {
	local count field

	__hotcell_fields=()
	IFS= read -r -d '' -u "$__hotcell_in" count
	while ((count-- > 0)); do
		IFS= read -r -d '' -u "$__hotcell_in" field
		__hotcell_fields+=("$field")
	done
}

# The length says nothing to us: all fields have an end, and the seed has a size.
__hotcell_receive() {
	local flags setting

	IFS= read -r -d '' -u "$__hotcell_in" _ || return
	IFS= read -r -d '' -u "$__hotcell_in" flags
	IFS= read -r -d '' -u "$__hotcell_in" __hotcell_path
	__hotcell_list
	__hotcell_args=("${__hotcell_fields[@]}")
	__hotcell_list
	for setting in "${__hotcell_fields[@]}"; do
		export "${setting?}"
	done
	read -r -N 64 -u "$__hotcell_in" __hotcell_seed
	if [[ $flags == *n* ]]; then
		exec </dev/null
	elif [[ $flags == *i* ]]; then
		exec </tmp/.hotcell/stdin
		printf o >&"$__hotcell_out"
	fi
}

__hotcell_answer() {
	local octal

	printf -v octal '%03o' "$1"
	printf "\\$octal%s" "$__hotcell_seed" >&"$__hotcell_out"
}

exec {__hotcell_in}<&999 {__hotcell_out}>&998 999<&- 998>&-
__hotcell_pid=$BASHPID
__hotcell_runs=
set -E
trap __hotcell_interrupt INT
trap __hotcell_fail ERR
printf r >&"$__hotcell_out"
while __hotcell_receive; do
	BASH_ARGV0=${__hotcell_path##*/}
	set -- "${__hotcell_args[@]}"
	__hotcell_status=
	__hotcell_had_e=
	__hotcell_runs=1
	eval "source \"\$__hotcell_path\" \"\$@\" $__hotcell_in<&- $__hotcell_out>&-"
	__hotcell_result=$?
	__hotcell_runs=
	__hotcell_answer "${__hotcell_status:-$__hotcell_result}"
	[[ ! $__hotcell_had_e ]] || set -e
done
