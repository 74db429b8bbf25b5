echo before
echo "${nothing:?went wrong}"
