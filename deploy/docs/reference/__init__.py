"""The reference pages, written from the definitions in the code.

    PYTHONPATH=deploy/docs python -m reference [--check]

writes `pages/reference/*.md`. With `--check` nothing is written: a page that is not fresh is named,
and the exit code is 1.

A page of keys comes from the definitions that parse a configuration, the page of commands from the
parser of the command line, the page of metrics from the families that the gateway serves, and the
page of error codes from the calls that make errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from reference import (
    command_line,
    connector_keys,
    converter_keys,
    error_codes,
    metric_names,
    service_keys,
    transform_keys,
)

FOLDER: Final = Path(__file__).parents[1] / "pages" / "reference"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "connectors.md": connector_keys.write_page,
    "transforms.md": transform_keys.write_page,
    "converters.md": converter_keys.write_page,
    "services.md": service_keys.write_page,
    "cli.md": command_line.write_page,
    "error-codes.md": error_codes.write_page,
    "metrics.md": metric_names.write_page,
}
"""Each page with the function that returns its text."""


def stale_pages() -> dict[str, str]:
    """Return the fresh text of each page whose file has another one."""
    fresh = {name: write() for name, write in PAGES.items()}
    return {name: text for name, text in fresh.items() if _read(name) != text}


def _read(name: str) -> str:
    file = FOLDER / name
    return file.read_text(encoding="utf-8") if file.exists() else ""
