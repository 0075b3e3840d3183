#!/usr/bin/env bash
# The command of this name: bin/connect-mirror-maker.sh config/connect-mirror-maker.properties as in Kafka.
set -euo pipefail
penstock="$(dirname "${BASH_SOURCE[0]}")/../../../.venv/bin/penstock"
[[ -x "$penstock" ]] || penstock=penstock
exec "$penstock" mirror-maker "$@"
