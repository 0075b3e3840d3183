"""Jars of Maven, fetched once into `$PENSTOCK_CACHE` (`~/.cache/penstock`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>penstock</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>{}</dependencies></project>"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def jars(name: str, *coordinates: str) -> Path:
    """Return the folder of the cache with jars and all that they need at run time. `coordinates`
    are `group:artifact:version`; `name` changes with them.
    """
    cache = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    folder = Path(cache) / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            found = _fetch(Path(made), coordinates)
            with suppress(OSError):  # another process was first
                found.rename(folder)
    return folder


def _fetch(folder: Path, coordinates: tuple[str, ...]) -> Path:
    dependencies = "".join(_DEPENDENCY.format(*one.split(":")) for one in coordinates)
    (folder / "pom.xml").write_text(_POM.format(dependencies), encoding="utf-8")
    command = ["mvn", "-B", "-q", "-ntp", "-f", str(folder / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={folder / 'jars'}"]
    subprocess.run(command, check=True, timeout=900)
    return folder / "jars"
