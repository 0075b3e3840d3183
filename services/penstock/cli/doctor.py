"""`penstock doctor`: what this machine lacks to run Penstock, and how to mend it.

`doctor_config` checks what a file of keys names: etcd, listeners, folders, plugins.
"""

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

from penstock.cli.doctor_config import CheckResult, check_config, check_folder, failed_check
from penstock.cli.errors import EXIT_FAILED
from penstock.cli.output import OUTPUTS, print_value
from penstock.cli.progress import status_line
from penstock.model.errors import error_from_diagnostic
from penstock.plugin.catalog.registry import Registry
from penstock.standalone.settings import default_state_dir

JAVA_VERSIONS: Final = (17, 21)
"""Versions of Java that Spark 4 runs on."""

WORKER_MEMORY_BYTES: Final = 2 << 30
"""What one worker takes with its JVM, at the default of `spark.driver.memory`."""

_JAVA_TIMEOUT_S: Final = 20.0

_JAVA_CODE: Final = "doctor.java"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="plugin folder")
    parser.add_argument(
        "--config", type=Path, help="file of keys of a service, or a worker file: check it, too"
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run all checks; end with 1 when something that is needed is missing."""
    with status_line("checking what the file names"):
        of_file, keys = check_config(arguments.config) if arguments.config else ([], ())
    # a key of the file replaces the check of this machine's default
    results = [check() for key, check in _CHECKS if key not in keys]
    results += [*_check_plugins(arguments.plugins), *of_file]
    rows = [
        {"status": "ok" if one.ok else "missing" if one.needed else "note", "what": one.subject,
         "found": one.found, "code": "" if one.ok else one.code,
         "place": "" if one.ok else one.key, "fix": "" if one.ok else one.fix}
        for one in results
    ]  # fmt: skip
    print_value(arguments.output, rows, rows)
    return EXIT_FAILED if any(one.needed and not one.ok for one in results) else 0


def _check_python() -> CheckResult:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return CheckResult("python", ok, version, "Install Python 3.11 or newer.", code="doctor.python")


def _check_java() -> CheckResult:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        return _java_result("none", ok=False)
    if not Path(java).exists():
        fix = "Correct JAVA_HOME, or unset it: then the `java` on the path is used."
        found = f"JAVA_HOME is {home}, and there is no {java}"
        return CheckResult("java", ok=False, found=found, fix=fix, code=_JAVA_CODE, key="JAVA_HOME")
    try:
        process = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _java_result(f"{java}: {type(error).__name__}", ok=False)
    return check_java_version(java, process.stderr)


def check_java_version(java: str, output: str) -> CheckResult:
    """Check the output of `java -version`."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    version = int(match[1]) if match else 0
    return _java_result(f"{version or 'unknown'} at {java}", ok=version in JAVA_VERSIONS)


def _java_result(found: str, *, ok: bool) -> CheckResult:
    fix = f"Install a JDK {' or '.join(map(str, JAVA_VERSIONS))}, and set JAVA_HOME to it."
    return CheckResult("java", ok, found, fix, code=_JAVA_CODE, key="JAVA_HOME")


def _check_memory() -> CheckResult:
    free = available_memory(Path("/proc/meminfo").read_text(encoding="ascii"))
    return CheckResult(
        "memory",
        free >= WORKER_MEMORY_BYTES,
        f"{free >> 20} MiB free",
        "A worker takes 1.6 GB: set spark.driver.memory lower, or free memory.",
        needed=False,
        code="doctor.little_memory",
        key="spark.driver.memory",
    )


def available_memory(meminfo: str) -> int:
    """Return the bytes that a process can have: the kernel gives up its caches for it."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(match[1]) << 10 if match else 0


def _check_disk() -> CheckResult:
    return check_folder("disk", default_state_dir(), "state.dir")


def _check_port() -> CheckResult:
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", 8083)) == 0
    return CheckResult(
        "port 8083",
        not taken,
        "taken" if taken else "free",
        "A gateway or another program answers there: set another port in `listeners`.",
        needed=False,
        code="rpc.address_in_use",
        key="listeners",
    )


def _check_etcd() -> CheckResult:
    binary = shutil.which(os.environ.get("ETCD_BIN", "etcd"))
    return CheckResult(
        "etcd",
        binary is not None,
        binary or "none",
        "Only a cluster needs it: apt-get install etcd-server, or name one in ETCD_BIN.",
        needed=False,
        code="doctor.no_etcd",
        key="ETCD_BIN",
    )


def _check_scratch_folder() -> CheckResult:
    path = tempfile.gettempdir()
    # the path of a socket has at most 107 bytes; ours have up to 60 below the scratch folder
    ok = len(path) <= 45 and os.access(path, os.W_OK)
    fix = "Set TMPDIR to a short, writable folder."
    return CheckResult("scratch folder", ok, path, fix, code="doctor.scratch", key="TMPDIR")


def _check_plugins(paths: list[Path]) -> Iterator[CheckResult]:
    registry = Registry.load(paths)
    names = sorted(manifest.name for manifest in registry.manifests)
    yield CheckResult(
        "plugins",
        bool(names),
        ", ".join(names),
        "Install one, or reinstall Penstock.",
        code="doctor.no_plugins",
        key="--plugins",
    )
    for problem in registry.problems:
        result = failed_check("plugin", error_from_diagnostic(problem), "--plugins")
        yield replace(result, needed=False)


_CHECKS: Final[tuple[tuple[str, Callable[[], CheckResult]], ...]] = (
    ("", _check_python),
    ("", _check_java),
    ("", _check_memory),
    ("state.dir", _check_disk),
    ("listeners", _check_port),
    ("etcd.endpoints", _check_etcd),
    ("", _check_scratch_folder),
)
"""Checks of the machine, each with the key that replaces it where a file sets the key."""
