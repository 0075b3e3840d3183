"""`penstock doctor`: what this machine lacks to run Penstock, and how to mend it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.cli.errors import FAILED
from penstock.cli.looks.configured import configured
from penstock.cli.looks.found import Found, folder, refused
from penstock.cli.remote.showing import OUTPUTS, show
from penstock.cli.waiting import waiting
from penstock.model.errors import error_of
from penstock.plugin import Registry
from penstock.standalone.settings import default_state_dir

JAVAS: Final = (17, 21)
"""Versions of Java that Spark 4 runs on."""

MEMORY: Final = 2 << 30
"""Bytes that one worker takes with its JVM, at the default of `spark.driver.memory`."""

_WITHIN: Final = 20.0

_JAVA: Final = "doctor.java"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="plugin folder")
    parser.add_argument(
        "--config", type=Path, help="file of keys of a service, or a worker file: what it names"
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; ends with 1 when something that is needed is missing."""
    with waiting("looking at what the file names"):
        said, keys = configured(arguments.config) if arguments.config else ([], ())
    # what the file says was looked at as it says it; the rest as on any machine
    found = [look() for key, look in _LOOKS if key not in keys]
    found += [*_plugins(arguments.plugins), *said]
    rows = [
        {"status": "ok" if one.ok else "missing" if one.needed else "note", "what": one.what,
         "found": one.found, "code": "" if one.ok else one.code,
         "place": "" if one.ok else one.place, "fix": "" if one.ok else one.fix}
        for one in found
    ]  # fmt: skip
    show(arguments.output, rows, rows)
    return FAILED if any(one.needed and not one.ok for one in found) else 0


def _python() -> Found:
    version = ".".join(map(str, sys.version_info[:3]))
    fix = "Install Python 3.11 or newer."
    return Found("python", sys.version_info >= (3, 11), version, fix, code="doctor.python")


def _java() -> Found:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    fix = f"Install a JDK {' or '.join(map(str, JAVAS))}, and set JAVA_HOME to it."
    if java is None or not Path(java).exists():
        return Found("java", ok=False, found="none", fix=fix, code=_JAVA, place="JAVA_HOME")
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_WITHIN, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        found = f"{java}: {type(error).__name__}"
        return Found("java", ok=False, found=found, fix=fix, code=_JAVA, place="JAVA_HOME")
    return java_found(java, asked.stderr)


def java_found(java: str, said: str) -> Found:
    """Return what a `java -version` says."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    version = int(match[1]) if match else 0
    fix = f"Install a JDK {' or '.join(map(str, JAVAS))}, and set JAVA_HOME to it."
    found = f"{version or 'unknown'} at {java}"
    return Found("java", version in JAVAS, found, fix, code=_JAVA, place="JAVA_HOME")


def _memory() -> Found:
    free = available(Path("/proc/meminfo").read_text(encoding="ascii"))
    fix = "A worker takes 1.6 GB; set spark.driver.memory lower, or free some."
    return Found(
        "memory",
        free >= MEMORY,
        f"{free >> 20} MiB free",
        fix,
        needed=False,
        code="doctor.little_memory",
        place="spark.driver.memory",
    )


def available(meminfo: str) -> int:
    """Return the bytes that a process could have: what is cached is given up for it."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(match[1]) << 10 if match else 0


def _disk() -> Found:
    return folder("disk", default_state_dir(), "state.dir")


def _port() -> Found:
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", 8083)) == 0
    fix = "Something answers there: a gateway, or another program; `listeners` names another port."
    what = "taken" if taken else "free"
    return Found(
        "port 8083",
        not taken,
        what,
        fix,
        needed=False,
        code="rpc.address_in_use",
        place="listeners",
    )


def _etcd() -> Found:
    binary = shutil.which(os.environ.get("ETCD_BIN", "etcd"))
    fix = "Only a cluster needs it: apt-get install etcd-server, or name one in ETCD_BIN."
    return Found(
        "etcd",
        binary is not None,
        binary or "none",
        fix,
        needed=False,
        code="doctor.no_etcd",
        place="ETCD_BIN",
    )


def _sockets() -> Found:
    path = tempfile.gettempdir()
    # a socket's path may have 107 bytes; ours are up to 60 below the scratch folder
    ok = len(path) <= 45 and os.access(path, os.W_OK)
    return Found(
        "scratch folder",
        ok,
        path,
        "Set TMPDIR to a short, writable folder.",
        code="doctor.scratch",
        place="TMPDIR",
    )


def _plugins(paths: list[Path]) -> Iterator[Found]:
    registry = Registry.load(paths)
    names = sorted(manifest.name for manifest in registry.manifests)
    yield Found(
        "plugins",
        bool(names),
        ", ".join(names),
        "Install one, or reinstall Penstock.",
        code="doctor.no_plugins",
        place="--plugins",
    )
    for problem in registry.problems:
        yield replace(refused("plugin", error_of(problem), "--plugins"), needed=False)


_LOOKS: Final[tuple[tuple[str, Callable[[], Found]], ...]] = (
    ("", _python),
    ("", _java),
    ("", _memory),
    ("state.dir", _disk),
    ("listeners", _port),
    ("etcd.endpoints", _etcd),
    ("", _sockets),
)
"""Looks at the machine, each with the key that says more precisely what to look at."""
