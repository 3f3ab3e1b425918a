#!/bin/sh
# For the crontab of every machine: one of them runs the command, whichever is first.
#
#     0 3 * * *  cron_once.sh NAME COMMAND...
#
# The name stays closed for 50 s after the beginning, as the clocks of machines differ.
name=$1
shift
redlock run "$name" --no-wait --at-least 50 -- "$@"
status=$?
[ $status = 124 ] || exit $status        # 124: another machine does it
