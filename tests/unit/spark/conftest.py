"""A warm engine, and tiny plugins."""

import pytest

from support.engine import end_kept, keep
from tests.unit.spark.tiny_plugin import SCHEMA, TinyPlugin, rows


def pytest_configure(config: pytest.Config) -> None:
    """Name what is special about some tests here."""
    config.addinivalue_line("markers", "slow: starts a cluster of its own")
    config.addinivalue_line("markers", "spark35: makes an environment with PySpark 3.5, on demand")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what installs 400 MB, unless it is asked for by its marker."""
    if "spark35" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("spark35")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def loop():
    """The event loop on which the engine lives."""
    return keep()[0]


@pytest.fixture(scope="module")
def engine(loop):
    """A warm engine with two slots."""
    return keep()[1]


@pytest.fixture(scope="module")
def no_kept_engine():
    """For a module that starts an engine of its own in this process."""
    end_kept()


@pytest.fixture(scope="module")
def end_engine():
    """For a module that harms the engine: the next one gets another."""
    yield
    end_kept()


@pytest.fixture
def plugin(tmp_path):
    """A source with four batches of a thousand rows, which is a sink too."""
    plugin = TinyPlugin(tmp_path, SCHEMA)
    for seq in range(1, 5):
        plugin.batches[seq] = rows(seq * 1000, 1000)
    yield plugin
    plugin.stop()
