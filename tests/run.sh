#!/usr/bin/env bash
# Sets the machine up, then runs every check and test, quick ones first, and stops at the first red one.
# `tests/run.sh fast` runs the ones that start no cluster. Further options go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/local/setup.sh dev
stages=(tests/unit connectors tests/contract tests/security)
if [ "${1:-}" = fast ]; then shift; else stages+=('tests/system tests/chaos --no-loadscope-reorder' 'tests/unit/spark -m spark35 -n 0'); fi
began=$SECONDS
bash tests/static.sh
for stage in "${stages[@]}"; do
  printf '\n── %d s so far ── next: %s\n' $((SECONDS - began)) "$stage"
  # two files at once: none of them measures, and half of the time they wait. A stage may bring options
  python -m pytest -n 2 --dist loadfile $stage --durations=5 "$@"
done  # the last line is pytest's own, with its count and its time
