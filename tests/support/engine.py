"""One warm engine for the tests of a process: a JVM costs six seconds of a core.

A module that harms its engine, or starts one of its own in this process, ends the one that is kept
(`end_kept`): pyspark knows one Spark context in a process.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings

_kept: list[tuple[asyncio.AbstractEventLoop, Engine, Path]] = []


def keep() -> tuple[asyncio.AbstractEventLoop, Engine]:
    """Return an engine with two slots that has started, and the event loop that it lives on."""
    if _kept and _kept[0][1].lost.is_set():
        end_kept()
    if not _kept:
        loop, folder = asyncio.new_event_loop(), Path(tempfile.mkdtemp(prefix="spark-"))
        engine = Engine(EngineSettings(master="local[2,1]", slots=2, local_dir=folder))
        loop.run_until_complete(engine.start())
        _kept.append((loop, engine, folder))
    loop, engine, _ = _kept[0]
    return loop, engine


def end_kept() -> None:
    """End the engine, if there is one."""
    while _kept:
        loop, engine, folder = _kept.pop()
        loop.run_until_complete(engine.stop())
        loop.close()
        shutil.rmtree(folder, ignore_errors=True)
