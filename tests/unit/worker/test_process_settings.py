"""The settings of a worker's process, from its keys."""

from pathlib import Path

from penstock.model.config_def import parse
from penstock.worker.process_keys import KEYS
from penstock.worker.process_settings import read_worker_settings


def plugins(**config: str):
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return read_worker_settings(parse(KEYS, keys), keys, Path("topics")).plugins


def test_plugins_are_reloaded_often_and_unlimited_by_default():
    settings = plugins()
    assert (settings.path.folders, settings.path.only_sealed) == ((), False)
    assert (settings.reload, settings.memory_max) == (10.0, 0)


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
