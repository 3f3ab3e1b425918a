#!/bin/sh
# Starts a program of which many instances start at once. The first one brings the schema up to
# date. The others wait for it, find nothing to do, and start.
#
#     migrate.sh DATABASE MIGRATIONS PROGRAM...       MIGRATIONS: a folder of 1.sql, 2.sql, ...
set -e
[ $# -ge 3 ] || { echo "usage: migrate.sh DATABASE MIGRATIONS PROGRAM..." >&2; exit 2; }
[ -d "$2" ] || { echo "migrate.sh: no such folder: $2" >&2; exit 1; }
redlock run "migrate:$1" --wait 600 -- sh -ec '
    case $1 in /*) database=$1 ;; *) database=./$1 ;; esac
    query() { sqlite3 -bail -cmd ".timeout 10000" "$database"; }
    version=$(echo "PRAGMA user_version;" | query)
    while [ -e "$2/$((version + 1)).sql" ]; do
        last=$version version=$((version + 1))
        sql=$(cat < "$2/$version.sql")
        # All of it or nothing, and nothing when another process has migrated meanwhile.
        query <<END
BEGIN IMMEDIATE;
CREATE TEMP TABLE version (still CHECK (still = $last));
INSERT INTO version SELECT user_version FROM pragma_user_version;
$sql
PRAGMA user_version = $version;
COMMIT;
END
        [ "$(echo "PRAGMA user_version;" | query)" -ge $version ] || {
            echo "migrate.sh: $2/$version.sql has no end" >&2
            exit 1
        }
        echo "migrated to $version"
    done
' sh "$1" "$2"
shift 2
exec "$@"
