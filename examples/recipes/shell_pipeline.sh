#!/bin/sh
# A pipeline of which one runs at a time, and whose writer refuses what comes too late: it keeps the
# largest token that it has seen, and checks and writes under one lock of the file system.
#
#     producer | shell_pipeline.sh FILE
exec redlock run "pipeline:$1" --wait 60 -- sh -c '
    sort | uniq -c > "$1.new.$REDLOCK_TOKEN" &&
    flock "$1.fence" sh -c "
        last=\$(cat \"\$1.fence\")
        [ \$REDLOCK_TOKEN -ge \${last:-0} ] || { echo too late >&2; exit 1; }
        echo \$REDLOCK_TOKEN > \"\$1.fence\" && mv \"\$1.new.\$REDLOCK_TOKEN\" \"\$1\"" sh "$1"
' sh "$1"
