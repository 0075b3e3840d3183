#!/usr/bin/env bash
# Sets the machine up, then runs every check and test, quick ones first, and stops at the first red one.
# `tests/run.sh fast` runs the ones that start no cluster. Further options go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/local/setup.sh dev
stages=(tests/unit connectors tests/contract tests/security)
if [ "${1:-}" = fast ]; then shift; else stages+=(tests/system tests/chaos); fi
began=$SECONDS
bash tests/static.sh
for folder in "${stages[@]}"; do
  find "$folder" -name 'test_*.py' 2> /dev/null | grep -q . || continue  # a room that has no tests yet
  printf '\n── %d s so far ── next: %s\n' $((SECONDS - began)) "$folder"
  python -m pytest "$folder" --durations=5 "$@"
done
if [[ " ${stages[*]} " = *' tests/system '* ]]; then  # an environment of its own, some minutes the first time
  printf '\n── %d s so far ── next: PySpark 3.5\n' $((SECONDS - began))
  python -m pytest tests/unit/spark -m spark35
fi  # the last line is pytest's own, with its count and its time
