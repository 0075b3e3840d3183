#!/bin/sh
# postgresql.sh NAME STATEMENTS…: runs SQL in a database of the test's server, and prints bare rows.
name="$1"; shift
printf '%s\n' "$@" | exec psql -qAtX -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$KIT_POSTGRESQL_PORT" -U penstock -d "$name"
