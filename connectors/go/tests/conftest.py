"""What the tests of the Go SDK share: its examples, built once for each process of tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.foreign import ForeignBed, go_build


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs of the examples."""
    return go_build(tmp_path_factory.mktemp("go"))


@pytest.fixture
def numbers(programs: Path) -> Iterator[ForeignBed]:
    """The plugin of the example source, running."""
    with ForeignBed([programs / "numbers"]) as bed:
        yield bed


@pytest.fixture
def lines(programs: Path) -> Iterator[ForeignBed]:
    """The plugin of the example sink, running."""
    with ForeignBed([programs / "lines"]) as bed:
        yield bed
