#!/bin/sh
# The start of a program of which many begin at once: the first one brings the schema up to date,
# the others wait for that, and find nothing to do.
#
#     migrate.sh DATABASE MIGRATIONS PROGRAM...       MIGRATIONS: a folder of 1.sql, 2.sql, ...
set -e
[ -d "$2" ] || { echo "migrate.sh: no such folder: $2" >&2; exit 1; }
redlock run "migrate:$1" --wait 600 -- sh -ec '
    version=$(sqlite3 "$1" "PRAGMA user_version")
    while [ -e "$2/$((version + 1)).sql" ]; do
        version=$((version + 1))
        sql=$(cat "$2/$version.sql")
        # All of it, or nothing; and not after somebody else.
        sqlite3 -bail -cmd ".timeout 10000" "$1" <<END
BEGIN IMMEDIATE;
$sql
PRAGMA user_version = $version;
COMMIT;
END
        echo "migrated to $version"
    done
' sh "$1" "$2"
shift 2
exec "$@"
