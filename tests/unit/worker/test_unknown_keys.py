"""Keys that a connector does not have: an error where it has our name, a warning in Kafka's."""

import pytest

from penstock.model.config_def import KeyDefinition
from penstock.model.connector import Target
from penstock.model.errors import Diagnostic, Severity
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.responses import ConnectorSpec
from penstock.worker.config.unknown_keys import (
    tolerates_unknown_keys,
    unknown_key_warnings,
    with_known_keys,
    without_keys,
)

SPEC = ConnectorSpec(
    "file-sink", Kind.SINK, keys=(KeyDefinition("file"), KeyDefinition("s3.*"), KeyDefinition("pw"))
)
JAVA = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.mark.parametrize(
    ("setting", "name", "tolerant"),
    [
        (None, "file-sink", False),
        (None, "builtin/file-sink", False),
        (None, JAVA, True),
        (None, "FileStreamSink", True),
        ("fail", JAVA, False),
        ("warn", "file-sink", True),
    ],
)
def test_who_names_a_class_of_java_has_a_configuration_of_kafka_connect(setting, name, tolerant):
    assert tolerates_unknown_keys(setting, SPEC, name) is tolerant


def test_only_known_keys_are_sent():
    given = Target(
        JAVA, "c", {"file": "a", "s3.region": "b", "_owner": "me"}, {"pw": "x", "no": "y"}
    )
    sent = with_known_keys(SPEC, given)
    assert (sent.config, sent.secrets) == ({"file": "a", "s3.region": "b"}, {"pw": "x"})
    assert without_keys(given, ["_owner", "no"]).secrets == {"pw": "x"}


def test_other_findings_stay_what_they_are():
    unknown = Diagnostic("config.unknown_key", "there is no key 'x'", fix="Did you mean 'y'?")
    (warning,) = unknown_key_warnings([unknown, Diagnostic("config.missing", "no")])
    assert warning.severity is Severity.WARNING
    assert "no effect" in warning.message
    assert warning.fix.startswith("Did you mean 'y'?")
