#!/usr/bin/env bash
# Makes an environment with PySpark 3.5 in a cache folder, once, and runs a command of Python's in it: spark35.sh -m MODULE …
set -euo pipefail
home="${XDG_CACHE_HOME:-$HOME/.cache}/penstock/spark35"
wanted=('pyspark==3.5.9' 'pyarrow>=18' 'pandas<3' 'numpy<2.4' 'grpcio>=1.80' 'grpcio-health-checking>=1.80' 'grpcio-reflection>=1.80' 'opentelemetry-api>=1.27' 'protobuf>=6.31.1,<7' 'cryptography>=42')
if [ "$(cat "$home/.ready" 2> /dev/null)" != "${wanted[*]}" ]; then
  "${PENSTOCK_PYTHON:-python3}" -m venv --clear "$home"
  "$home/bin/python" -m pip install -q --disable-pip-version-check "${wanted[@]}"
  printf '%s\n' "${wanted[*]}" > "$home/.ready"
fi
exec "$home/bin/python" "$@"
