#!/usr/bin/env bash
# A whole cluster on this machine (etcd, one of each service, three workers), which outlives this command:
# `cluster.sh start|stop|status [--dir DIR]`, and `start --workers N`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh" quickstart etcd
exec penstock cluster "$@"
