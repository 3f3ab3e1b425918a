#!/bin/bash
# One pipeline at a time replaces FILE: with all of its output, or not at all when a part of it
# fails, when it loses the lock, or when a later one was faster.
#
#     shell_pipeline.sh FILE PRODUCER...           needs fenced.sh beside it
[ $# -ge 2 ] || { echo "usage: shell_pipeline.sh FILE PRODUCER..." >&2; exit 2; }
exec redlock run "pipeline:$1" --wait 60 -- bash -e -o pipefail -c '
    new=$2.new.$REDLOCK_TOKEN
    trap "rm -f -- \"\$new\"" EXIT
    "${@:3}" | sort | uniq -c > "$new"
    sync -- "$new"
    sh "$1/fenced.sh" "$2" "$REDLOCK_TOKEN" mv -f -- "$new" "$2"
' bash "$(dirname -- "$0")" "$@"
