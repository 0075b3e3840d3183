"""A connector taken apart, with the values of its references where they belong."""

import asyncio
import json
import logging
from typing import Any

import pytest

from penstock.connector_config.keys import SCHEDULER_KEYS
from penstock.connector_config.validation import refuse_errors
from penstock.model.config_def import split_errors
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, InternalError, PenstockError, Severity
from penstock.plugin.catalog.registry import PluginPath
from penstock.plugin.host import PluginHost
from penstock.plugin.process.logs import Redactor
from penstock.secrets.provider import ProviderResponse
from penstock.secrets.resolution import Secrets
from penstock.telemetry.redaction import RedactionFilter, redact_diagnostic, redact_secrets
from penstock.worker.admin.connector_plugins import Validator
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, resolve_config


class NoPlugins:
    """A host without a plugin."""

    def find(self, name, version=""):
        raise ConfigError("plugin.not_installed", f"{name} {version} is not installed")


NO_HOST: Any = NoPlugins()
PASSWORD = "hunter-2-of-the-design"
VALUES = {"password": PASSWORD, "topic": "orders", "host": "db.example", "number": "many"}


class Known:
    """Knows `VALUES`."""

    async def read(self, path, keys):
        return ProviderResponse({key: VALUES[key] for key in keys}, 60)

    async def close(self):
        """Nothing is held."""


def resolved(
    kind=ConnectorKind.SOURCE, host: PluginHost = NO_HOST, **config: str
) -> ResolvedConfig:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    given = {"connector.class": "x", **keys}
    if kind is ConnectorKind.PIPELINE:
        given = keys
    return asyncio.run(resolve_config(host, Secrets({"p": Known()}), Connector("c", given, kind)))


def test_what_came_by_reference_and_what_a_name_calls_secret_goes_as_a_secret():
    made = resolved(
        url="jdbc://${p:host}/", db__password="${p:password}", api__token="plain", a="b"
    )
    target = made.target("source")
    assert dict(target.config) == {"a": "b"}
    assert dict(target.secrets) == {
        "url": "jdbc://db.example/",
        "db.password": PASSWORD,
        "api.token": "plain",
    }


def test_each_end_of_a_pipeline_gets_its_own():
    made = resolved(
        ConnectorKind.PIPELINE,
        source__connector__class="x",
        source__at="${p:host}",
        sink__connector__class="y",
        sink__at="here",
    )
    assert (dict(made.target("source").config), dict(made.target("source").secrets)) == (
        {},
        {"at": "db.example"},
    )
    assert dict(made.target("sink").config) == {"at": "here"}


def test_what_is_stored_and_shown_has_references():
    made = resolved(db__password="${p:password}", topic="${p:topic}")
    assert made.connector.config["db.password"] == "${p:password}"
    assert made.settings.topic == "orders"
    assert PASSWORD not in repr(made)
    assert made.ttl == 60


PART = "S3CRET-part-of-a-hook"


def test_a_secret_that_is_a_part_of_a_value_is_masked_however_the_value_is_written(monkeypatch):
    """A port that a client adds, or another case, must not bring the rest to light."""
    monkeypatch.setitem(VALUES, "hook", PART)
    made = resolved(source__url="http://127.0.0.1/hook/${p:hook}", types="id:${p:hook}")
    assert PART in made.secret_texts
    for text in (
        f"http://127.0.0.1:80/hook/{PART}: Connection refused",
        f"there is no type '{PART}'",
        f"GET /hook/{PART}?x=1",
    ):
        assert PART not in redact_diagnostic(Diagnostic("x", text)).message
        assert PART not in redact_secrets(text)
        assert PART not in Redactor()(text)


def test_a_secret_with_quotes_is_masked_where_it_stands_in_json_or_as_a_literal(monkeypatch):
    monkeypatch.setitem(VALUES, "hook", 'a"quoted\\pässword')
    resolved(source__url="${p:hook}")
    for text in (json.dumps(VALUES["hook"]), json.dumps(VALUES["hook"], ensure_ascii=False)):
        assert redact_secrets(f'{{"url": {text}}}') == '{"url": "***"}'


def test_a_finding_that_quotes_a_value_is_masked_and_so_is_a_log_line():
    made = resolved(predicates="${p:password}", auto__offset__reset="${p:password}")
    assert [d.config_path for d in made.findings] == ["auto.offset.reset"]
    record = logging.LogRecord("x", logging.INFO, "", 0, f"got {PASSWORD}", (), None)
    RedactionFilter().filter(record)
    assert record.getMessage() == "got ***"
    assert all(PASSWORD not in str(found) for found in made.findings)


def test_names_of_topics_are_no_secrets_wherever_they_came_from():
    resolved(topic="${p:topic}")
    record = logging.LogRecord("x", logging.INFO, "", 0, "writing to orders", (), None)
    RedactionFilter().filter(record)
    assert record.getMessage() == "writing to orders"


@pytest.mark.parametrize("key", [key.name for key in SCHEDULER_KEYS])
def test_a_key_of_the_scheduler_takes_no_reference(key):
    made = resolved(**{key.replace(".", "__"): "${p:number}"})
    with pytest.raises(Exception, match=r"secrets\.not_here|config\.") as caught:
        refuse_errors(made.findings)
    told = str(getattr(caught.value, "diagnostic", "").detail)
    assert "secrets.not_here" in told + str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"tasks.max": "${p:password}"},
        {"transforms": "${p:password}"},
        {"transforms": "a,${p:password}"},
        {"predicates": "${p:password}", "transforms": "t", "transforms.t.predicate": "x"},
        {"connector.class": "${p:password}"},
        {"errors.tolerance": "${p:password}"},
        {"url": "${p:password}", "password": "${p:password}"},
    ],
)
@pytest.mark.parametrize("kind", [ConnectorKind.SOURCE, ConnectorKind.UNSPECIFIED])
def test_nothing_that_is_found_tells_what_was_looked_up(tmp_path, config, kind):
    """Wherever the reference stands: findings quote values, and name keys after them."""
    host = PluginHost(PluginPath(()), tmp_path)
    validator = Validator(WorkerContext(host, Secrets({"p": Known()})))
    given = {"connector.class": "nobody-has-it", **config}
    try:
        found = asyncio.run(validator.validate(Connector("c", given, kind)))
        told = repr(found.diagnostics)
    except PenstockError as error:  # of a kind that was given, the class is looked for later
        told = repr(error.diagnostic)
    assert "not_installed" in told
    assert PASSWORD not in told


def test_each_text_of_a_finding_is_looked_through():
    texts = ("message", "fix", "config_path", "suggestion", "detail", "dataset")
    told = Diagnostic("a.b", **dict.fromkeys(texts, "it is hunter22, here"))
    found = redact_diagnostic(told, {"hunter22"})
    assert [getattr(found, name) for name in texts] == ["it is ***, here"] * len(texts)


def test_all_errors_among_findings_are_raised():
    findings = [
        ConfigError("config.a", "no a", config_path="a").diagnostic,
        Diagnostic("config.w", "well", severity=Severity.WARNING),
        InternalError("config.b", "no b", fix="Drop b.", config_path="b").diagnostic,
    ]
    with pytest.raises(ConfigError) as caught:
        refuse_errors(findings)
    found = split_errors(caught.value)
    assert [(one.code, one.diagnostic.fix) for one in found] == [
        ("config.a", ""),
        ("config.b", "Drop b."),
    ]
    assert all(isinstance(one, ConfigError) for one in found)
    with pytest.raises(ConfigError, match="no a") as caught:
        refuse_errors(findings[:2])
    assert len(split_errors(caught.value)) == 1
