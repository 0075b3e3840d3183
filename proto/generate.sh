#!/usr/bin/env bash
# Regenerates services/penstock/api and connectors/go/api from proto/ (or into the folder given). A test compares the result with
# what is committed. The generators for Go are pinned in connectors/go/go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-services}"; go_out="${1:-connectors/go}"
mapfile -t files < <(find proto/penstock -name '*.proto' | sort)
python -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" --mypy_grpc_out="$out" "${files[@]}"
# Packages instead of namespaces: import-linter sees only packages.
find "$out/penstock/api" -type d ! -name __pycache__ | while read -r folder; do
  echo '"""Generated from `proto/` by `proto/generate.sh`, never edited."""' > "$folder/__init__.py"
done
# The plugin protocol in Go. The files have no go_package option, so the Go packages are set here.
mapfile -t files < <(find proto/penstock/api/{connector,error,record}/v1 -name '*.proto' | sort)
to_go=(--go_opt=module=penstock/go --go-grpc_opt=module=penstock/go)
for file in "${files[@]#proto/}"; do
  folder="${file#penstock/}"; folder="${folder%/*}"; package="${folder#api/}"
  to_go+=("--go_opt=M$file=penstock/go/$folder;${package/\//}" "--go-grpc_opt=M$file=penstock/go/$folder;${package/\//}")
done
tool() { go -C connectors/go tool -n "$1"; }
python -m grpc_tools.protoc -I proto --plugin="protoc-gen-go=$(tool protoc-gen-go)" --plugin="protoc-gen-go-grpc=$(tool protoc-gen-go-grpc)" \
  --go_out="$go_out" --go-grpc_out="$go_out" "${to_go[@]}" "${files[@]}"
