#!/usr/bin/env bash
# Kafka Connect's command of this name: bin/connect-standalone.sh config/connect-standalone.properties …
set -euo pipefail
penstock="$(dirname "${BASH_SOURCE[0]}")/../../../.venv/bin/penstock"
[[ -x "$penstock" ]] || penstock=penstock
exec "$penstock" standalone "$@"
