"""No row is lost silently: what a connector must configure before it tolerates rejected rows."""

import pytest

from penstock.connector_config.sections import check_rejected_row_keys, split_config
from penstock.connector_config.settings import read_settings
from penstock.model.connector import ConnectorKind
from penstock.model.errors import Severity

PLACE = "errors.deadletterqueue.topic.name"
SOURCE, SINK = ConnectorKind.SOURCE, ConnectorKind.SINK


def findings(kind=SINK, **keys):
    config = {key.replace("__", "."): value for key, value in keys.items()}
    parts = split_config({"connector.class": "x", **config}, kind)
    settings, found = read_settings({"name": "c", **parts.framework})
    return [*found, *check_rejected_row_keys(settings, parts, kind)]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"errors__tolerance": "none"},
        {"errors__tolerance": "all", "errors__skip": "true"},
        {"errors__tolerance": "5/1000", "errors__deadletterqueue__topic__name": "dead"},
        {"errors__tolerance": "all", "errors__deadletterqueue__sink__connector__class": "y"},
        {
            "errors__tolerance": "all",
            "errors__deadletterqueue__topic__name": "dead",
            "errors__deadletterqueue__topic__replication__factor": "1",
            "errors__deadletterqueue__context__headers__enable": "true",
            "errors__log__enable": "true",
            "errors__log__include__messages": "true",
            "errors__retry__timeout": "-1",
            "errors__retry__delay__max__ms": "1000",
        },
    ],
)
def test_valid_combinations_have_no_findings(keys):
    assert findings(topics="orders", **keys) == []


@pytest.mark.parametrize(
    ("kind", "keys", "code", "severity"),
    [
        (SINK, {"errors__tolerance": "all"}, "errors.no_place", Severity.WARNING),
        (SINK, {"errors__tolerance": "1/10"}, "errors.no_place", Severity.WARNING),
        (SINK, {"errors__tolerance": "most"}, "config.wrong_type", Severity.ERROR),
        (
            SINK,
            {"errors__deadletterqueue__topic__name": "dead"},
            "errors.not_tolerated",
            Severity.WARNING,
        ),
        (
            SINK,
            {
                "errors__tolerance": "all",
                "topics": "a,dead",
                "errors__deadletterqueue__topic__name": "dead",
            },
            "errors.loop",
            Severity.ERROR,
        ),
        (
            SINK,
            {
                "errors__tolerance": "all",
                "topics__regex": "de.*",
                "errors__deadletterqueue__topic__name": "dead",
            },
            "errors.loop",
            Severity.ERROR,
        ),
        (
            SOURCE,
            {
                "errors__tolerance": "all",
                "topic": "dead",
                "errors__deadletterqueue__topic__name": "dead",
            },
            "errors.loop",
            Severity.ERROR,
        ),
    ],
)
def test_invalid_combinations_are_reported(kind, keys, code, severity):
    assert (code, severity) in [(found.code, found.severity) for found in findings(kind, **keys)]


def test_the_dead_letter_sink_has_keys_of_its_own():
    config = {
        "connector.class": "x",
        "file": "a",
        "errors.deadletterqueue.sink.connector.class": "y",
        "errors.deadletterqueue.sink.file": "b",
    }
    parts = split_config(config, SINK)
    assert dict(parts.sink) == {"file": "a"}
    assert dict(parts.dead_letter_sink) == {"connector.class": "y", "file": "b"}
