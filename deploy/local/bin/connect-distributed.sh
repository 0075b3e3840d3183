#!/usr/bin/env bash
# The command of this name: bin/connect-distributed.sh config/connect-distributed.properties … as in Kafka Connect,
# and bin/connect-distributed.sh -c conf/connect-distributed.conf as in RocketMQ Connect.
set -euo pipefail
penstock="$(dirname "${BASH_SOURCE[0]}")/../../../.venv/bin/penstock"
[[ -x "$penstock" ]] || penstock=penstock
[[ "${1:-}" != -c ]] || shift
exec "$penstock" distributed "$@"
