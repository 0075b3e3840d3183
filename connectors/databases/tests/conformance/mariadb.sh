#!/bin/sh
# mariadb.sh NAME STATEMENTS…: runs SQL in a database of the test's server; NAME is empty for none.
name="$1"; shift
printf '%s\n' "$@" | exec mariadb --no-defaults -h127.0.0.1 -P"$KIT_MARIADB_PORT" -upenstock -ppenstock --default-character-set=utf8mb4 ${name:+"$name"}
