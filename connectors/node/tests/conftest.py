"""What the tests of the Node connector share: it, with its libraries, outside of the checkout."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.foreign import ForeignBed, npm_install


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin as a user installs it."""
    return npm_install(ROOT / "connectors/node", tmp_path_factory.mktemp("node") / "numbers")


@pytest.fixture
def numbers(plugin: Path) -> Iterator[ForeignBed]:
    """The plugin, running."""
    with ForeignBed(["node", plugin / "connector.js"]) as bed:
        yield bed
