#!/bin/sh
# A write to SQLite that a late holder cannot make: its token is a condition of the write itself.
#
#     fenced_sql.sh DATABASE AMOUNT        adds to the balance of account 7
exec redlock run account:7 --wait 60 -- sh -c '
    changed=$(sqlite3 -cmd ".timeout 10000" "$1" "
        UPDATE account SET balance = balance + $2, fence = $REDLOCK_TOKEN
        WHERE id = 7 AND fence <= $REDLOCK_TOKEN; SELECT changes()")
    [ "$changed" = 1 ] || { echo "too late: somebody else has written since" >&2; exit 1; }
' sh "$1" "$2"
