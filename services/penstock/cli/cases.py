"""The tests that the file of a connector has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.expected import Expected, expected_of
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import TESTS, naming, read_connector
from penstock.pipeline_files.files import read_document, read_values
from penstock.pipeline_files.pipeline import pipeline_of


@dataclass(frozen=True, slots=True)
class Case:
    """A test of a file."""

    file: Path
    connector: Connector
    expected: Expected


def cases_of(file: Path) -> Iterator[Case]:
    """Yield the tests of a pipeline's file, or of a connector's with one end.

    Raises:
        ConfigError: the file is none of these, or a test is not written as one.
    """
    connector = read_connector(file)
    if "connector.class" not in connector.config:
        with naming(file):
            connector = pipeline_of(connector)
    if TESTS not in read_document(file):
        return
    tests = read_values(file)[TESTS] or []
    if not isinstance(tests, list):
        raise ConfigError(
            "test.malformed", f"{file}: `tests` is no list", fix="Write `- name: …` for each."
        )
    for number, raw in enumerate(tests, 1):
        yield Case(file, connector, expected_of(raw, f"{file}: tests[{number}]"))
