#!/bin/sh
# drop.sh NAME: ends who holds the slot of a database, then drops both; tries for ten seconds.
here="$(dirname "$0")"
for _ in $(seq 1 50); do
  sh "$here/postgresql.sh" postgres "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '$1' AND active" > /dev/null
  sh "$here/postgresql.sh" postgres "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '$1'" > /dev/null 2>&1 &&
    exec sh "$here/postgresql.sh" postgres "DROP DATABASE $1 WITH (FORCE)"
  sleep 0.2
done
echo "the slot of $1 is still in use" >&2; exit 1
