#!/usr/bin/env bash
# Does the protocol break whoever uses it? Compares with the commit on main that this one builds on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() { echo "buf breaking: skipped, $1"; exit 0; }
head="$(git rev-parse -q --verify HEAD)" || skip "there is no commit"
base="$(git merge-base HEAD origin/main 2> /dev/null || git merge-base HEAD main 2> /dev/null || echo "$head")"
if [ "$base" = "$head" ]; then
  git rev-parse -q --verify HEAD~1 > /dev/null || git fetch -q --deepen=1 2> /dev/null || true  # a shallow clone may have more
  base="$(git rev-parse -q --verify HEAD~1)" || skip "there is no earlier commit"
fi
[ -n "$(git ls-tree "$base" proto/penstock)" ] || skip "${base:0:9} has no protocol"
before="$(mktemp -d)"; trap 'rm -rf "$before"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$before"
buf breaking --against "$before" && echo "buf breaking: compatible with ${base:0:9}"
