"""A warm engine for each module, and tiny plugins."""

import asyncio

import pytest

from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
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
    """One event loop for the module: the engine lives on it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def engine(loop, tmp_path_factory):
    """A warm engine with two slots."""
    settings = EngineSettings(
        master="local[2,1]", slots=2, local_dir=tmp_path_factory.mktemp("spark")
    )
    engine = Engine(settings)
    loop.run_until_complete(engine.start())
    yield engine
    loop.run_until_complete(engine.stop())


@pytest.fixture
def plugin(tmp_path):
    """A source with four batches of a thousand rows, which is a sink too."""
    plugin = TinyPlugin(tmp_path, SCHEMA)
    for seq in range(1, 5):
        plugin.batches[seq] = rows(seq * 1000, 1000)
    yield plugin
    plugin.stop()
