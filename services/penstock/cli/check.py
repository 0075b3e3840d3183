"""`penstock check FILE…`: what is wrong with connector files, without a cluster.

The plugins of the connectors are started, and validate their keys; the chain of transforms is
built. With `--connect` the plugins also try their systems. Spark is not started, except for
`--rows`: the first rows of the sources, behind the transforms. Nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, chdir
from dataclasses import replace
from pathlib import Path

from penstock.cli.errors import EXIT_FAILED, EXIT_USAGE, print_diagnostic
from penstock.cli.pipeline_paths import make_absolute
from penstock.cli.process import run_process
from penstock.cli.progress import status_line
from penstock.connector_config.plain_secrets import find_plain_secrets
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, Severity
from penstock.model.inspection import MAX_PREVIEW_ROWS
from penstock.pipeline_files.connector_file import check_pipeline, naming_file, read_connector
from penstock.plugin.host import PluginHost
from penstock.secrets.provider_settings import create_secrets
from penstock.standalone.settings import pipeline_settings
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.config.reach import ConnectorBounds
from penstock.worker.config.resolved_config import WorkerContext


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("files", nargs="+", type=Path, help="files of pipelines or connectors")
    parser.add_argument(
        "--connect", action="store_true", help="also try to reach the systems, with the credentials"
    )
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        help="folder of a plugin, or of several; default: that of the files",
    )
    parser.add_argument(
        "--rows", type=int, default=0, metavar="N",
        help=f"also show rows of the source behind the transforms, {MAX_PREVIEW_ROWS} at most",
    )  # fmt: skip
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the files; end with 2 when a configuration has an error, 1 when a system has one."""
    _refuse_rows(arguments)
    make_absolute(arguments, "files", "plugins")
    connectors = [(file, _read(file)) for file in arguments.files]
    with status_line("asking the plugins"):
        code = asyncio.run(_check_all(connectors, arguments))
    if code or not arguments.rows:
        return code
    folder = arguments.files[0].parent
    # what checks a configuration does without Spark, and without the time that it takes to load
    from penstock.cli.check_rows import show_rows  # noqa: PLC0415

    with status_line("starting Spark, then reading rows"):
        return run_process(
            lambda _: show_rows(connectors, arguments.plugins, arguments.rows), folder=folder
        )


def _refuse_rows(arguments: argparse.Namespace) -> None:
    if not 0 <= arguments.rows <= MAX_PREVIEW_ROWS:
        raise ConfigError(
            "check.rows",
            f"--rows is {arguments.rows}, expected a number from 1 to {MAX_PREVIEW_ROWS}",
            fix="Write --rows 10.",
        )
    if arguments.rows and len({file.resolve().parent for file in arguments.files}) > 1:
        raise ConfigError(
            "check.rows",
            "--rows shows rows of files in one folder, and these are in several: paths in a file "
            "are relative to its folder",
            fix="Check one file at a time.",
        )


def _read(file: Path) -> Connector:
    connector = read_connector(file)
    if "connector.class" in connector.config:
        return connector
    with naming_file(file):
        return check_pipeline(connector)


async def _check_all(
    connectors: Sequence[tuple[Path, Connector]], arguments: argparse.Namespace
) -> int:
    code = 0
    for file, connector in connectors:
        # the paths in a file are relative to it, as for `penstock run`
        with chdir(file.parent):
            async with _validator(file, arguments.plugins) as validator:
                found = await _check(validator, file, connector, connect=arguments.connect)
        code = max(code, found)
    return code


@asynccontextmanager
async def _validator(file: Path, plugins: Sequence[Path]) -> AsyncIterator[Validator]:
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as folder:
        worker = pipeline_settings([file.parent], Path(folder), plugins).worker
        host = PluginHost(worker.plugins.path, Path(folder) / "p")
        secrets = create_secrets(worker.providers)
        bounds = ConnectorBounds(worker.overrides, worker.reach)
        try:
            yield Validator(
                WorkerContext(host, secrets, bounds, worker.functions_path, worker.brokers)
            )
        finally:
            await secrets.close()
            await host.close(0.0)


async def _check(validator: Validator, file: Path, connector: Connector, *, connect: bool) -> int:
    validated = await validator.validate(connector)
    plain = find_plain_secrets(connector.config, validated.secret_keys)
    for finding in (*validated.diagnostics, *plain):
        print_diagnostic(_named(finding, file))
    if any(finding.severity is Severity.ERROR for finding in validated.diagnostics):
        return EXIT_USAGE
    if not connect:
        print(
            f"{file}: no error in its configuration; --connect tries its systems, too, and --rows "
            "shows rows"
        )
        return 0
    return await _connect(validator, file, replace(connector, kind=validated.kind))


async def _connect(validator: Validator, file: Path, connector: Connector) -> int:
    code = 0
    async for role, step in validator.check(connector):
        end = role if connector.kind is ConnectorKind.PIPELINE else connector.name
        print(f"{file}: {end}, {step.step}: {'ok' if step.ok else 'failed'}")
        for found in step.diagnostics:
            print_diagnostic(found)
        if not step.ok:
            code = EXIT_FAILED
    return code


def _named(found: Diagnostic, file: Path) -> Diagnostic:
    return replace(found, message=f"{file}: {found.message}")
