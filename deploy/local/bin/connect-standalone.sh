#!/usr/bin/env bash
# The command of this name: bin/connect-standalone.sh config/connect-standalone.properties … as in Kafka Connect,
# and bin/connect-standalone.sh -c conf/connect-standalone.conf as in RocketMQ Connect.
set -euo pipefail
penstock="$(dirname "${BASH_SOURCE[0]}")/../../../.venv/bin/penstock"
[[ -x "$penstock" ]] || penstock=penstock
[[ "${1:-}" != -c ]] || shift
exec "$penstock" standalone "$@"
