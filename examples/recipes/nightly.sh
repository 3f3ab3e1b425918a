#!/bin/sh
# A nightly job whose result is written to SQLite. Put it into the crontab of every machine:
#
#     PATH=/usr/local/bin:/usr/bin:/bin
#     0 3 * * *  nightly.sh DATABASE JOB...        JOB prints SQL
#
# One machine runs it. The name stays closed for an hour, also if JOB fails, because the machines'
# clocks differ. The table `mark` refuses smaller tokens, so a run that was paused past its lease
# changes nothing. SQLite runs all of the SQL or, when JOB or a statement fails, nothing.
[ $# -ge 2 ] || { echo "usage: nightly.sh DATABASE JOB..." >&2; exit 2; }
redlock run nightly --no-wait --quiet --at-least 3600 -- sh -ec '
    case $1 in /*) database=$1 ;; *) database=./$1 ;; esac
    shift
    sql=$("$@") || { echo "nightly.sh: $1 failed: $?" >&2; exit 1; }
    done=$(sqlite3 -bail -cmd ".timeout 10000" "$database" <<END
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, token INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS mark_grows BEFORE UPDATE ON mark WHEN NEW.token < OLD.token
BEGIN SELECT RAISE(ABORT, "too late: another run has written since"); END;
INSERT INTO mark VALUES (1, $REDLOCK_TOKEN)
ON CONFLICT (id) DO UPDATE SET token = excluded.token;
$sql
COMMIT;
SELECT "committed";
END
)
    case $done in *committed) ;; *) echo "nightly.sh: the SQL has no end" >&2; exit 1 ;; esac
' sh "$@"
status=$?
[ $status = 124 ] || exit $status        # 124: another machine runs it, or has run it
