"""Keys of plugins and their values, as Kafka Connect shows them."""

from penstock.gateway.routes.bodies import CheckedConfig, KeyInfo
from penstock.model.admin import ValidatedConnector
from penstock.model.config_def import ConfigValue, ConnectorDefinition, KeyDefinition
from penstock.model.connector import ConnectorKind
from penstock.model.errors import Diagnostic, Severity

FILE = KeyDefinition("file", "file", required=True, importance="high", group="Where", order=1)
WAIT = KeyDefinition("wait", "duration", "5s")
SECRET = KeyDefinition("password", "password", "canary", sensitive=True)
DESCRIBED = ConnectorDefinition("file-source", "source", "builtin", "1", (FILE, WAIT, SECRET))


def checked(config, *findings, values=()):
    found = ValidatedConnector(findings, ConnectorKind.SOURCE, values)
    return CheckedConfig.of(DESCRIBED, config, found).to_json()


def values_of(shown):
    return {one["value"]["name"]: one["value"] for one in shown["configs"]}


def test_types_that_kafka_has_no_name_for_are_texts():
    assert KeyInfo.of(FILE).type == KeyInfo.of(WAIT).type == "STRING"
    assert KeyInfo.of(SECRET).type == "PASSWORD"
    assert KeyInfo.of(KeyDefinition("n", "int")).type == "INT"


def test_what_a_plugin_leaves_out_has_kafkas_defaults():
    shown = KeyInfo.of(WAIT).to_json()
    assert shown["importance"] == "MEDIUM"
    assert (shown["group"], shown["order_in_group"], shown["width"]) == (None, -1, "NONE")
    assert (shown["display_name"], shown["default_value"]) == ("wait", "5s")


def test_errors_stand_at_their_keys():
    missing = Diagnostic(
        "config.missing", "`file` needs a value", config_path="file", fix="Set it."
    )
    shown = checked({"wait": "1s"}, missing)
    assert shown["error_count"] == 1
    assert values_of(shown)["file"]["errors"] == ["`file` needs a value. Set it."]
    assert values_of(shown)["wait"] == {
        "name": "wait",
        "value": "1s",
        "recommended_values": [],
        "errors": [],
        "visible": True,
    }
    assert shown["groups"] == ["Where"]


def test_no_error_is_left_out():
    unknown = Diagnostic("config.unknown_key", "no such key", config_path="fil")
    nowhere = Diagnostic("plugin.hung", "it hung")
    shown = checked({}, unknown, nowhere)
    assert shown["error_count"] == 2
    assert values_of(shown)["fil"]["errors"]
    assert values_of(shown)["connector.class"]["errors"]


def test_warnings_are_no_errors():
    warning = Diagnostic("a.b", "old", severity=Severity.WARNING, config_path="wait")
    assert checked({}, warning)["error_count"] == 0


def test_secrets_are_not_shown():
    for config in ({}, {"password": "canary"}):
        assert "canary" not in str(checked(config))


def test_a_key_is_hidden_where_its_plugin_hides_it():
    value = ConfigValue("wait", "5s", visible=False)
    shown = values_of(checked({}, values=(value,)))["wait"]
    assert (shown["value"], shown["visible"]) == ("5s", False)
