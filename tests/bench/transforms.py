"""What a long chain costs beside a short one: eight transforms and one, over the same rows.

In Spark and in kernels. Each slot has a plugin that serves rows of 100 bytes from memory and counts
what is put, as in `engine.py`; the rows of every run are counted and summed at the sink.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from engine import FRAME_ROWS, SCHEMA, SLOTS, peers, timed
from penstock.model.step import Step
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from penstock.transform.configuration import build_chain
from report import Report, arguments

MOST: Final = 1.5
"""A chain of eight may take so many times as long as a chain of one."""

FILTER: Final = {"type": "Filter", "condition": "id % 10 <> 7 AND name RLIKE '^name'"}
INSERT: Final = {"type": "InsertField", "static.field": "x", "static.value": "v"}
RENAME: Final = {"type": "ReplaceField", "renames": "x:y"}
MASK: Final = {"type": "MaskField", "fields": "y"}
SELECT: Final = {
    "type": "Sql",
    "statement": "SELECT id, ts, upper(name) AS name, payload FROM batch",
}

CHAINS: Final[Mapping[str, tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]]] = {
    "through the JVM": (
        [FILTER],
        [
            FILTER,
            {"type": "Cast", "spec": "ts:string"},
            {"type": "Cast", "spec": "ts:int64"},
            INSERT,
            RENAME,
            MASK,
            SELECT,
            {"type": "Filter", "condition": "payload RLIKE '^0'"},
        ],
    ),
    "fused": (
        [SELECT],
        [
            INSERT,
            RENAME,
            MASK,
            {"type": "Flatten"},
            {"type": "Filter", "condition": "id >= 0"},
            {"type": "ReplaceField", "exclude": "y"},
            {"type": "Cast", "spec": "ts:int64"},
            SELECT,
        ],
    ),
}


def steps(transforms: Sequence[Mapping[str, str]]) -> tuple[Step, ...]:
    """Return a chain fitted to the rows."""
    config = {"transforms": ",".join(f"t{n}" for n in range(len(transforms)))}
    for n, transform in enumerate(transforms):
        config |= {f"transforms.t{n}.{key}": value for key, value in transform.items()}
    return build_chain(config).compile("bench", SCHEMA).steps


async def measure(options: argparse.Namespace, folder: Path, report: Report) -> None:
    """Measure every pair of chains, in turn, so that both see the same machine."""
    settings = EngineSettings(master=f"local[{SLOTS},1]", slots=SLOTS, local_dir=folder / "spark")
    engine = Engine(settings)
    await engine.start()
    each = max(1, options.rows // SLOTS // FRAME_ROWS)
    try:
        with peers(folder, FRAME_ROWS, SLOTS) as used:
            for lane, (short, long) in CHAINS.items():
                plans = [
                    await asyncio.to_thread(engine.build, "bench", SCHEMA, steps(chain), SLOTS)
                    for chain in (short, long)
                ]
                taken: tuple[list[float], list[float]] = ([], [])
                for run in range(options.runs + 1):
                    for plan, times in zip(plans, taken, strict=True):
                        took = await timed(engine, plan, used, each, run)
                        times.extend([took] if run else [])  # the first is warm-up
                for name, times in zip(("a chain of 1", "a chain of 8"), taken, strict=True):
                    report.add(f"{name}, {lane}", "s", *times)
                one, eight = map(statistics.median, taken)
                report.add(f"8 beside 1, {lane}", "times", eight / one, at_most=MOST)
    finally:
        await engine.stop()


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a micro-batch")
    options = parser.parse_args()
    report = Report("transforms", facts={"rows": options.rows})
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        asyncio.run(measure(options, Path(folder), report))
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
