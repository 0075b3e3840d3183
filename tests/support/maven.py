"""Jars and archives of Maven, fetched once into `$PENSTOCK_CACHE` (`~/.cache/penstock`)."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
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
    return cached(name, lambda folder: _fetch(folder, coordinates))


def unpacked(name: str, coordinate: str) -> Path:
    """Return the folder of the cache with what is in an archive: `group:artifact:version:tar.gz`,
    and `:classifier`, if it has one.
    """
    return cached(name, lambda folder: _unpack(folder, coordinate))


def cached(name: str, fetch: Callable[[Path], Path]) -> Path:
    """Return a folder of the cache. When it is not there, `fetch` makes one in the folder that it
    is given.
    """
    cache = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    folder = Path(cache) / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            found = fetch(Path(made))
            with suppress(OSError):  # another process was first
                found.rename(folder)
    return folder


def _unpack(folder: Path, coordinate: str) -> Path:
    command = ["mvn", "-B", "-q", "-ntp", "dependency:copy", f"-Dartifact={coordinate}"]
    subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=900, cwd=folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall(folder / "unpacked", **safe)
    return folder / "unpacked"


def _fetch(folder: Path, coordinates: tuple[str, ...]) -> Path:
    dependencies = "".join(_DEPENDENCY.format(*one.split(":")) for one in coordinates)
    (folder / "pom.xml").write_text(_POM.format(dependencies), encoding="utf-8")
    command = ["mvn", "-B", "-q", "-ntp", "-f", str(folder / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={folder / 'jars'}"]
    subprocess.run(command, check=True, timeout=900)
    return folder / "jars"
