#!/bin/sh
# Runs COMMAND, one at a time, unless a larger TOKEN was used for FILE before.
#
#     fenced.sh FILE TOKEN COMMAND...
#
# FILE.mark keeps the largest token; do not delete it. All writers must see the same FILE, on one
# machine or on a file system whose flock works between machines.
set -e
exec 9>> "$1.flock"
flock 9
last=0
[ ! -e "$1.mark" ] || last=$(cat < "$1.mark")
[ "$2" -ge "$last" ] || { echo "too late: the token $2 comes after $last" >&2; exit 1; }
if [ "$2" -gt "$last" ]; then
    echo "$2" > "$1.mark.new"
    sync -- "$1.mark.new"
    mv -f -- "$1.mark.new" "$1.mark"
fi
shift 2
"$@"
