"""Makes the archive of the classes that Spark loads. With it, the JVM is warm in two thirds of the
time.

    python -m penstock.spark.archive

The installation runs this once for an environment. It starts and warms up a JVM, which writes its
classes to the archive when it ends (JEP 350). Without an archive, or with another Java or Spark,
Spark starts as usual: the JVM checks whether an archive fits.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from penstock.spark import jvm
from penstock.spark.engine import Engine
from penstock.spark.settings import JVM_OPTIONS, EngineSettings

WRITE_TIMEOUT_S: Final = 120.0
"""Time for the JVM to write its classes. It needs eight seconds."""


def make_archive() -> Path:
    """Make the archive anew, in about 20 s, and return its path.

    Raises:
        ConfigError: `engine.no_java`.
        RetriableError: `engine.start_failed`.
        OSError: The environment cannot be written to, or the JVM wrote nothing.
    """
    jvm.ARCHIVE_FOLDER.mkdir(parents=True, exist_ok=True)
    for old in jvm.ARCHIVE_FOLDER.glob("spark-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="penstock-", dir=jvm.ARCHIVE_FOLDER) as folder:
        new = Path(folder, "spark.jsa")
        asyncio.run(_warm_up(Path(folder, "spark"), f'"-XX:ArchiveClassesAtExit={new}"'))
        return new.rename(jvm.archive_file())


async def _warm_up(local_dir: Path, option: str) -> None:
    options = {"spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {option}"}
    engine = Engine(EngineSettings(local_dir=local_dir, extra=options))
    await engine.start()
    await engine.stop(WRITE_TIMEOUT_S)


def main() -> None:
    """Make the archive, and print its path, size and time."""
    began = time.monotonic()
    file = make_archive()
    size_mib = file.stat().st_size >> 20
    elapsed_s = time.monotonic() - began
    print(f"{file}: {size_mib} MiB, made in {elapsed_s:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
