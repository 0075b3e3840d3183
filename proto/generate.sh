#!/usr/bin/env bash
# Regenerates services/penstock/api from proto/ (or into the folder given). A test compares the result with what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-services}"
mapfile -t files < <(find proto/penstock -name '*.proto' | sort)
python -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" --mypy_grpc_out="$out" "${files[@]}"
# Packages, not namespaces: the tool that checks the layers sees only packages.
find "$out/penstock/api" -type d ! -name __pycache__ | while read -r folder; do
  echo '"""Generated from `proto/` by `proto/generate.sh`, never edited."""' > "$folder/__init__.py"
done
