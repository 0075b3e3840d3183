"""The settings of a worker's process, from its keys."""

from pathlib import Path

import pytest

from penstock.model.config_def import parse
from penstock.model.errors import ConfigError
from penstock.plugin.memory_limit import default_memory_limit
from penstock.worker.process_keys import KEYS
from penstock.worker.process_settings import read_worker_settings


def plugins(**config: str):
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return read_worker_settings(parse(KEYS, keys), keys, Path("topics")).plugins


def test_plugins_are_reloaded_often_and_may_have_half_of_the_memory():
    settings = plugins()
    assert (settings.path.folders, settings.path.only_sealed) == ((), False)
    assert settings.reload == 10.0
    assert settings.memory_max == default_memory_limit()
    assert plugins(plugin_memory_max="0").memory_max == 0


def test_the_keys_of_plugins_take_effect():
    settings = plugins(
        plugin_path="/a, /b",
        plugin_reload="1m",
        plugin_only_sealed="true",
        plugin_memory_max="512MiB",
    )
    assert settings.path.folders == (Path("/a"), Path("/b"))
    assert settings.path.only_sealed
    assert (settings.reload, settings.memory_max) == (60.0, 512 << 20)


def engine(**config: str):
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return read_worker_settings(parse(KEYS, keys), keys, Path("topics")).engine


def test_the_keys_of_lanes_take_effect():
    assert (engine().lane_idle_s, engine().lane_port) == (30.0, 0)
    settings = engine(lane_idle="5s", lane_port="7077")
    assert (settings.lane_idle_s, settings.lane_port) == (5.0, 7077)


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_cannot_be_is_refused(port):
    with pytest.raises(ConfigError, match=r"`lane.port` is .*, expected 0 to 65535"):
        engine(lane_port=port)
