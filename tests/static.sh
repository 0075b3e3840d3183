#!/usr/bin/env bash
# The checks that run no product code: style, types, layers, docstrings, the protocol. Wants the environment of setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check() { local began=$SECONDS; printf '── %s\n' "$*"; "$@"; printf '   %d s\n' $((SECONDS - began)); }
check ruff check .
check ruff format --check .
check mypy
check lint-imports
check vulture
check deptry .
check interrogate -q services/penstock connectors/kit/penstock_kit connectors/python/penstock_connector connectors/python/penstock_values connectors/python/penstock_converters connectors/builtin/penstock_builtin connectors/databases/penstock_databases connectors/kafka/penstock_kafka connectors/net/penstock_net connectors/amqp/penstock_amqp connectors/metrics/penstock_metrics connectors/analytics/penstock_analytics connectors/messaging/penstock_messaging connectors/search/penstock_search connectors/rocketmq/penstock_rocketmq
check buf lint
check bash tests/breaking.sh
