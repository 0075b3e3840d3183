"""Levels of loggers, changed while the process runs."""

from __future__ import annotations

import logging

import pytest

from penstock.model.errors import ConfigError
from penstock.model.logs import LoggerLevel, LogLevel
from penstock.telemetry import log_levels as module
from penstock.telemetry.log_levels import LogLevels, levels_for_services

NAME = "penstock.test_levels"


@pytest.fixture
def levels():
    """Levels of this process, put back afterwards."""
    root = logging.getLogger().level
    one = LogLevels()
    yield one
    one._own.clear()
    one.set_cluster_levels({})
    assert logging.getLogger().level == root


def level() -> int:
    return logging.getLogger(NAME).level


def test_a_level_is_kept_and_what_nobody_wants_any_more_is_as_it_was(levels):
    logging.getLogger(NAME).setLevel(logging.ERROR)
    before = logging.getLogger().level
    levels.set_cluster_levels({NAME: "DEBUG", "root": "CRITICAL"})
    assert (level(), logging.getLogger().level) == (logging.DEBUG, logging.CRITICAL)
    levels.set_cluster_levels({NAME: "INFO"})
    assert (level(), logging.getLogger().level) == (logging.INFO, before)
    levels.set_cluster_levels({})
    assert level() == logging.ERROR
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def test_what_is_set_in_this_process_counts_more_than_what_is_kept(levels):
    levels.set_cluster_levels({NAME: "ERROR"})
    levels.set(NAME, "trace")
    levels.set_cluster_levels({NAME: "WARNING"})
    assert level() == logging.DEBUG
    assert LoggerLevel(NAME, "DEBUG", own=True) in levels.list()
    levels.set(NAME, "")
    assert level() == logging.WARNING
    assert LoggerLevel(NAME, "WARNING") in levels.list()
    levels.set_cluster_levels({})
    assert NAME not in {one.logger for one in levels.list()}
    assert "root" in {one.logger for one in levels.list()}


@pytest.mark.parametrize(
    ("logger", "word", "code"),
    [("", "INFO", "log_logger"), ("a/b", "INFO", "log_logger"), ("a", "LOUD", "log_level")],
)
def test_what_is_no_logger_or_level_is_refused(levels, logger, word, code):
    with pytest.raises(ConfigError, match=rf"config\.{code}\]"):
        levels.set(logger, word)


def test_levels_of_one_process_are_bounded(levels, monkeypatch):
    monkeypatch.setattr(module, "MAX_OWN_LEVELS", 2)
    levels.set(f"{NAME}.a", "INFO")
    levels.set(f"{NAME}.b", "INFO")
    levels.set(f"{NAME}.b", "DEBUG")
    with pytest.raises(ConfigError, match=r"config\.log_levels"):
        levels.set(f"{NAME}.c", "INFO")


def said(service: str, logger: str, word: str) -> LogLevel:
    return LogLevel(service, logger, word)


def test_what_is_said_of_a_service_counts_more_than_what_is_said_of_all():
    words = [said("worker", "a", "ERROR"), said("all", "a", "DEBUG"), said("all", "b", "INFO")]
    assert levels_for_services(words, ["worker"]) == {"a": "ERROR", "b": "INFO"}
    assert levels_for_services(reversed(words), ["worker"]) == {"a": "ERROR", "b": "INFO"}
    assert levels_for_services(words, ["config"]) == {"a": "DEBUG", "b": "INFO"}


def test_of_several_services_in_one_process_the_most_talkative_counts():
    words = [said("worker", "a", "ERROR"), said("config", "a", "INFO"), said("all", "a", "DEBUG")]
    assert levels_for_services(words, ["worker", "config", "offset"]) == {"a": "INFO"}
