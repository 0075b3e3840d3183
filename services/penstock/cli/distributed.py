"""`penstock distributed FILE`: all services of a machine, by Kafka Connect's worker file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from penstock.cli.errors import print_diagnostic
from penstock.cli.process import run_process
from penstock.cli.service import DEFAULT_LOG_LEVEL, first_cause
from penstock.cluster.distributed import distributed_settings, run_services
from penstock.cluster.settings import InstanceSettings
from penstock.pipeline_files.files import read_flat


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "file", type=Path, help="connect-distributed.properties, or the same keys in YAML or JSON"
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the services until a signal."""
    settings, warnings = distributed_settings(read_flat(arguments.file), os.environ)
    for warning in warnings:
        print_diagnostic(warning)
    return run_process(lambda _: _run(settings), level=DEFAULT_LOG_LEVEL, stopped_code=0)


async def _run(settings: dict[str, InstanceSettings]) -> int:
    try:
        await run_services(settings)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group
    return 0
