"""`penstock quickstart`: a first pipeline, on real data, without preparation.

Seattle's weather goes from a CSV file, through a transform and a topic, into a Delta table and
Parquet files. Then rows are appended to the file, and the time until they are in both tables is
measured.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from rich.console import Console

from penstock.cli.process import run_process
from penstock.connector_config.validation import validate_connector
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, RetriableError
from penstock.standalone.node import Node, run_connectors
from penstock.standalone.settings import node_settings

DATA = "seattle-weather.csv"
"""Four years of daily weather (NOAA), from the package vega_datasets."""

APPENDED_DAYS = 3
TIMEOUT_S = 60.0
"""Time for a stage. A cold machine needs about 20 s for the first."""

Report = Callable[[str], object]


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--dir", type=Path, help="folder to work in; default: a temporary one")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline, and print what it does."""
    folder = arguments.dir or Path(tempfile.mkdtemp(prefix="penstock-quickstart-"))
    console = Console(highlight=False)
    return run_process(lambda _: Quickstart(folder.absolute(), console.print).run())


class Quickstart:
    """Runs the quick start in one folder."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._folder, self._report = folder, report
        self._file = folder / DATA
        self._delta = folder / "delta" / "rainy_days"
        self._parquet = folder / "parquet" / "rainy_days"

    async def run(self) -> int:
        """Run it. Returns the exit code."""
        report, began = self._report, time.monotonic()
        self._folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data_file(), self._file)
        expected = self._rainy_days()
        report(f"[bold]Penstock quick start[/bold] in {self._folder}")
        report(
            f"  {self._file.name}: {self._lines()} days of Seattle's weather, {expected} with rain"
        )
        settings, _ = node_settings({"state.dir": str(self._folder / "state")})
        async with Node(settings) as node:
            report(
                f"  control plane answers after {time.monotonic() - began:.1f} s; Spark warms up"
            )
            checked = [
                (await validate_connector(node.config, one))[0] for one in self._connectors()
            ]
            await run_connectors(node, checked)
            for connector in checked:
                kind = connector.config["connector.class"]
                report(f"  started [bold]{connector.name}[/bold]: {kind}")
            await node.wait_until_ready()
            await self._arrived(expected)
            seconds = time.monotonic() - began
            report(f"[bold]{expected} rows are in both tables[/bold] after {seconds:.1f} s")
            await self._append(expected)
        self._what_next()
        return 0

    def _connectors(self) -> list[Connector]:
        source = {
            "connector.class": "file-source",
            "file": str(self._file),
            "format": "csv",
            "topic": "weather",
            "transforms": "rain,city,route",
            "transforms.rain.type": "Filter",
            "transforms.rain.condition": "weather = 'rain'",
            "transforms.city.type": "InsertField",
            "transforms.city.static.field": "city",
            "transforms.city.static.value": "Seattle",
            "transforms.route.type": "RegexRouter",
            "transforms.route.regex": "weather",
            "transforms.route.replacement": "rainy_days",
        }
        delta = {
            "connector.class": "delta-sink",
            "topics": "rainy_days",
            "path": str(self._delta),
            "flush.interval": "0",  # a version for every row: fine for a demonstration
        }
        parquet = {
            "connector.class": "file-sink",
            "topics": "rainy_days",
            "path": str(self._parquet),
            "format": "parquet",
            "flush.interval": "0",
        }
        named = {"weather-source": source, "delta-sink": delta, "parquet-sink": parquet}
        return [Connector(name, {"name": name, **config}) for name, config in named.items()]

    async def _append(self, before: int) -> None:
        self._report(
            f"  appending {APPENDED_DAYS} days to {self._file.name} while everything runs:"
        )
        for day in range(1, APPENDED_DAYS + 1):
            appended = time.monotonic()
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"2026/01/0{day},12.5,8.0,4.0,3.0,rain\n")
            delta, parquet = await asyncio.gather(
                self._until(self._delta_rows, before + day, appended),
                self._until(self._parquet_rows, before + day, appended),
            )
            self._report(
                f"    day {day}: in the Delta table after [bold]{delta * 1000:.0f} ms[/bold], "
                f"in a new Parquet file after {parquet * 1000:.0f} ms"
            )

    async def _arrived(self, rows: int) -> None:
        now = time.monotonic()
        await asyncio.gather(
            self._until(self._delta_rows, rows, now), self._until(self._parquet_rows, rows, now)
        )

    async def _until(self, count: Callable[[], int], rows: int, since: float) -> float:
        """Wait until a table has so many rows; returns the seconds since a moment."""
        while (found := await asyncio.to_thread(count)) != rows:
            if time.monotonic() - since > TIMEOUT_S or found > rows:
                raise RetriableError(
                    "quickstart.rows",
                    f"{found} rows arrived, expected {rows}",
                    fix="See the log above, and run it again in an empty folder.",
                )
            await asyncio.sleep(0.01)
        return time.monotonic() - since

    def _delta_rows(self) -> int:
        try:
            return int(DeltaTable(str(self._delta)).to_pyarrow_dataset().count_rows())
        except TableNotFoundError:
            return 0

    def _parquet_rows(self) -> int:
        if not self._parquet.is_dir():
            return 0
        return int(ds.dataset(str(self._parquet), format="parquet").count_rows())

    def _lines(self) -> int:
        return self._file.read_text(encoding="utf-8").count("\n") - 1

    def _rainy_days(self) -> int:
        lines = self._file.read_text(encoding="utf-8").splitlines()
        return sum(line.endswith(",rain") for line in lines)

    def _what_next(self) -> None:
        self._report(
            "\nThe data stays, for anything that reads Delta or Parquet:\n"
            f"  topic    {self._folder / 'state' / 'topics'}\n"
            f"  Delta    {self._delta}\n"
            f"  Parquet  {self._parquet}\n"
            "Try next, after `. deploy/local/setup.sh`, which puts penstock on the path:\n"
            "  penstock plugins                 the installed connectors\n"
            "  penstock run pipeline.yaml       your own: source, transforms, sink\n"
            "  penstock standalone w.properties source.properties sink.properties\n"
            "  kill -9 a run and start it again: no row is lost or duplicated"
        )


def data_file() -> Path:
    """Return the data file, without importing its package.

    Raises:
        ConfigError: `quickstart.no_data`.
    """
    spec = importlib.util.find_spec("vega_datasets")
    for place in (spec and spec.submodule_search_locations) or ():
        path = Path(place) / "_data" / DATA
        if path.is_file():
            return path
    raise ConfigError(
        "quickstart.no_data",
        "the package with the data file is not installed",
        fix="pip install 'penstock[quickstart]'",
    )
