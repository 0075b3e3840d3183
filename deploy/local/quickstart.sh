#!/usr/bin/env bash
# The first job, from nothing: sets the machine up, then moves a real data file through a source, a transform, an embedded
# topic and a sink, and shows new rows arrive while it runs. Options go to `penstock quickstart`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh" quickstart
exec penstock quickstart "$@"
