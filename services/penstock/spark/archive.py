"""An archive of the classes that Spark loads: with it, the JVM is warm in two thirds of the time.

    python -m penstock.spark.archive

makes it, once for an environment; the installation does. A JVM is started and warmed up as always,
and writes its classes down when it ends (JEP 350). Where there is none, or where another Java or
another Spark was put in, Spark starts as it always did: the JVM checks whether an archive fits.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyspark

FOLDER: Final = Path(sys.prefix) / "share" / "penstock"
"""Where it is kept: with the environment, and gone with it."""

WRITTEN_WITHIN: Final = 120.0
"""Seconds in which the JVM writes its classes down. It needs eight."""


def java() -> str:
    """Return the command that the JVM is started with, as Spark's own script finds it."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def option() -> str:
    """Return the option of a JVM that uses the archive; nothing when there is none."""
    file = _file()
    return f'"-XX:SharedArchiveFile={file}"' if file.is_file() else ""


def make() -> Path:
    """Make the archive anew, in about 20 s; returns its path.

    Raises:
        ConfigError: `engine.no_java`.
        RetriableError: `engine.start_failed`.
        OSError: The environment cannot be written to, or the JVM wrote nothing.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("spark-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="penstock-", dir=FOLDER) as folder:
        new = Path(folder, "spark.jsa")
        asyncio.run(_trained(Path(folder, "spark"), f'"-XX:ArchiveClassesAtExit={new}"'))
        return new.rename(_file())


async def _trained(local_dir: Path, option: str) -> None:
    from penstock.spark.engine import Engine  # noqa: PLC0415 - it is what asks for the option
    from penstock.spark.settings import JVM_OPTIONS, EngineSettings  # noqa: PLC0415 - as above

    options = {"spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {option}"}
    engine = Engine(EngineSettings(local_dir=local_dir, extra=options))
    await engine.start()
    await engine.stop(WRITTEN_WITHIN)


def _file() -> Path:
    """Name the archive after what it was made with."""
    made_with = (pyspark.__version__, pyspark.__file__, str(Path(java()).resolve()))
    digest = hashlib.sha256("\n".join(made_with).encode()).hexdigest()[:16]
    return FOLDER / f"spark-{digest}.jsa"


def main() -> None:
    """Make it, and say so."""
    began = time.monotonic()
    file = make()
    size = file.stat().st_size >> 20
    print(f"{file}: {size} MiB, made in {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
