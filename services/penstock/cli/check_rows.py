"""`penstock check FILE --rows N`: the first rows of a source, behind the transforms.

They pass through an engine of this process. Nothing is written, and no offset is stored.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.aio import run_together, wait_for_first
from penstock.cli.errors import EXIT_FAILED, print_error, with_connector_name
from penstock.cli.preview import Preview
from penstock.cli.process import JvmLostError
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError
from penstock.model.inspection import PreviewRequest
from penstock.standalone.node import Node
from penstock.standalone.settings import pipeline_settings


async def show_rows(
    connectors: Sequence[tuple[Path, Connector]], plugins: Sequence[Path], rows: int
) -> int:
    """Print the first rows of the source of each connector, behind its transforms. The working
    folder is that of the files. Returns 1 when a source has none to show.

    Raises:
        JvmLostError: the JVM is gone.
    """
    code = 0
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as state_dir:
        settings = pipeline_settings([Path.cwd()], Path(state_dir), plugins)
        # nothing else runs here, so one JVM is enough
        settings = replace(settings, worker=replace(settings.worker, previews_in_process=False))
        async with Node(settings) as node, run_together(node.wait_until_lost()) as (jvm_lost,):
            await node.wait_until_ready()
            for file, connector in connectors:
                showing = asyncio.ensure_future(_show(node, file, connector, rows))
                await wait_for_first(jvm_lost, showing)
                if not showing.done():
                    showing.cancel()
                    jvm_lost.result()
                    raise JvmLostError({})
                code = max(code, showing.result())
    return code


async def _show(node: Node, file: Path, connector: Connector, rows: int) -> int:
    """Print rows of a connector's source; return 1 when there are none to show."""
    try:
        result = await node.worker.preview_rows(connector, PreviewRequest((), sample=rows))
    except PenstockError as error:
        print_error(with_connector_name(error, str(file)))
        return EXIT_FAILED
    preview = Preview.of_result(result)
    preview.print_rows()
    preview.print_left_out()
    return 0
