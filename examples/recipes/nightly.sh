#!/bin/sh
# A nightly job whose result is written to SQLite, for the crontab of every machine:
#
#     0 3 * * *  nightly.sh DATABASE JOB...        JOB prints SQL
#
# Once: one machine runs it. The name stays closed for an hour, as the machines' clocks differ,
# also if JOB fails. Fenced: the table `mark` refuses smaller tokens, so a run that was paused past
# its lease changes nothing. Whole: all of the SQL is done, or none, and none if JOB fails.
redlock run nightly --no-wait --at-least 3600 -- sh -ec '
    database=$1
    shift
    sql=$("$@")
    sqlite3 -bail -cmd ".timeout 10000" "$database" <<END
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, token INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS mark_grows BEFORE UPDATE ON mark WHEN NEW.token < OLD.token
BEGIN SELECT RAISE(ABORT, "too late: another run has written since"); END;
INSERT INTO mark VALUES (1, $REDLOCK_TOKEN)
ON CONFLICT (id) DO UPDATE SET token = excluded.token;
$sql
COMMIT;
END
' sh "$@"
status=$?
[ $status = 124 ] || exit $status        # 124: another machine runs it, or has run it
