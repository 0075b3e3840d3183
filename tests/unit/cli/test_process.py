"""A process that replaces itself when its JVM is gone, and knows when to stop that."""

import json
import os

import pytest

from penstock.cli import process
from penstock.cli.process import MAX_JVM_LOSSES, JvmLostError, run_process
from penstock.model.errors import ConfigError, RetriableError


class _ReplacedError(Exception):
    """What `execv` raises here: it never returns either."""


@pytest.fixture(autouse=True)
def replaced(monkeypatch):
    def execv(path, arguments):
        assert path == arguments[0]
        raise _ReplacedError

    monkeypatch.setattr(process.os, "execv", execv)
    monkeypatch.setattr(process, "configure_logging", lambda **_: None)
    monkeypatch.setattr(process.gc, "freeze", lambda: None)
    yield
    os.environ.pop("PENSTOCK_EARLIER", None)


async def _loses(previous):
    raise JvmLostError({"rows": previous.carried.get("rows", 0) + 1})


def test_the_next_process_knows_what_was():
    with pytest.raises(_ReplacedError):
        run_process(_loses)
    seen = []

    async def main(previous):
        seen.append(previous)
        return 0

    assert run_process(main) == 0
    assert seen[0].exists
    assert seen[0].carried == {"rows": 1}
    assert "PENSTOCK_EARLIER" not in os.environ  # the next start by hand is a first one


def test_a_jvm_that_dies_each_time_is_given_up(monkeypatch):
    for _ in range(MAX_JVM_LOSSES - 1):
        with pytest.raises(_ReplacedError):
            run_process(_loses)
    with pytest.raises(RetriableError) as caught:
        run_process(_loses)
    assert caught.value.code == "engine.jvm_dies"


def test_a_level_that_is_none_is_told_with_its_variable(monkeypatch):
    monkeypatch.setenv("PENSTOCK_LOG_LEVEL", "LOUD")
    with pytest.raises(ConfigError) as caught:
        run_process(_loses)
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.log_level", "PENSTOCK_LOG_LEVEL")


def test_losses_of_long_ago_do_not_count():
    os.environ["PENSTOCK_EARLIER"] = json.dumps([-1e6, [-1e6] * MAX_JVM_LOSSES, {"rows": 7}])
    with pytest.raises(_ReplacedError):
        run_process(_loses)
    _, losses, carried = json.loads(os.environ["PENSTOCK_EARLIER"])
    assert len(losses) == 1
    assert carried == {"rows": 8}
