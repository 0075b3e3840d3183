#!/usr/bin/env bash
# Sets the machine up, then runs every check and test and ends with a table of them (stages.py).
# `tests/run.sh fast` leaves out clusters, databases and long files. Further options go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/local/setup.sh dev
exec python tests/stages.py "$@"
