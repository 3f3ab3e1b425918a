#!/bin/sh
# Exits with 0 if the Redis server of this container votes, and knows the fencing tokens from before.
# This is what `redlock check --wait` waits for, asked of one server with what its image has.
#
#     ready.sh [OPTIONS OF redis-cli]           such as --user locks --tls --cacert ca.crt
#
# The password, if there is one, is the first line of $PASSWORD_FILE, which is read each time.
if [ -n "${PASSWORD_FILE:-}" ]; then
    REDISCLI_AUTH=$(head -n 1 "$PASSWORD_FILE")
    export REDISCLI_AUTH
fi
{
    redis-cli "$@" INFO replication
    redis-cli "$@" GET redlock:{server}:marker
    redis-cli "$@" HMGET redlock:{server}:floor base
} | awk '
    { sub(/\r$/, ""); last = $0 }
    /^master_replid:/ { life = substr($0, 15, 16) }
    $2 ~ /^v[0-9]+$/ && $3 == "a" { admitted = $4; memory = substr($1, 1, 8) }
    END { exit !(life != "" && admitted == life && substr(last, 1, 8) == memory) }'
