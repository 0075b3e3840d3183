"""What is sent by OTLP, and whether; and what is said when it cannot be."""

import json
import re
import sys
import tomllib

import pytest

from penstock.model.errors import ConfigError
from penstock.telemetry.otlp import Signal, export_telemetry, is_enabled, is_exported
from support.checkout import ROOT, run
from support.traces import HttpReceiver, Receiver, attributes

ALL = "OTEL_EXPORTER_OTLP_ENDPOINT"
HERE = "http://c:4317"


@pytest.mark.parametrize("signal", Signal)
@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({ALL: HERE}, True),
        ({"OTEL_EXPORTER_OTLP_{}_ENDPOINT": HERE}, True),
        ({ALL: HERE, "OTEL_{}_EXPORTER": "none"}, False),
        ({"OTEL_{}_EXPORTER": "otlp"}, True),
        ({ALL: HERE, "OTEL_SDK_DISABLED": "true"}, False),
        ({ALL: ""}, False),
    ],
)
def test_the_standard_variables_say_whether(signal, environment, wanted):
    named = {name.format(signal.value): value for name, value in environment.items()}
    assert is_enabled(signal, named) is wanted


def test_one_signal_may_be_sent_and_the_others_not():
    environment = {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": HERE}
    assert [one for one in Signal if is_enabled(one, environment)] == [Signal.LOGS]


def test_a_process_that_sends_nothing_imports_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "penstock.telemetry.otlp_export", None)
    with export_telemetry("worker", {}):
        assert not any(map(is_exported, Signal))


def test_what_sends_is_installed_with_the_product():
    """A trace is wanted when something is wrong: then nobody installs first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {re.split("[>=<]", one)[0] for one in project["dependencies"]}
    senders = {f"exporter-otlp-proto-{protocol}" for protocol in ("grpc", "http")}
    assert {f"opentelemetry-{name}" for name in ("sdk", *senders)} <= installed


@pytest.mark.parametrize("signal", Signal)
def test_a_protocol_that_is_not_spoken_is_told(signal):
    variable = f"OTEL_EXPORTER_OTLP_{signal.value}_PROTOCOL"
    environment = {ALL: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", variable: "http/json"}
    told = rf"telemetry\.protocol.*{signal.value.lower()}"
    with pytest.raises(ConfigError, match=told) as failed, export_telemetry("worker", environment):
        pass
    assert failed.value.diagnostic.config_path == variable
    assert "http/protobuf" in failed.value.diagnostic.fix


SENDS = """
import asyncio, logging, os
from penstock.model.connector import TaskState, TaskStatus
from penstock.model.errors import ConfigError
from penstock.model.metrics import DatasetRows, PluginMetric
from penstock.rpc.interceptor import record_duration
from penstock.rpc.traces import span
from penstock.telemetry.redaction import register_secret
from penstock.telemetry.logs import configure_logging, log_context
from penstock.telemetry.otlp import export_telemetry
from penstock.worker.runtime import otel_metrics

TASK = TaskStatus(
    "g-3", "orders", 1, TaskState.RUNNING, rows_read=7,
    datasets=(DatasetRows("lines", 5, 4),),
    plugin_metrics=(
        PluginMetric("mine", "sink", "requests_total", 2),
        PluginMetric("mine", "sink", "queue_size", 0.5),
    ),
)

class Holdings:
    def statuses(self):
        return [TASK]

async def main():
    otel_metrics.register(Holdings().statuses)
    log = logging.getLogger("penstock.test")
    with log_context(connector="orders"), span("work"):
        log.warning("the password is %s", "hunter22hunter")
        try:
            raise ValueError("hunter22hunter")
        except ValueError:
            log.exception("failed")
    with record_duration("a/B"):
        pass
    try:
        with record_duration("a/B"):
            raise ConfigError("config.bad", "x")
    except ConfigError:
        pass
    await asyncio.sleep(0.5)

configure_logging()
register_secret("hunter22hunter")
with export_telemetry("worker", os.environ):
    asyncio.run(main())
"""


@pytest.fixture(scope="module", params=[Receiver, HttpReceiver], ids=["grpc", "http"])
def sent(request):
    with request.param() as receiver:
        done = run(sys.executable, "-c", SENDS, **receiver.environment)
        assert done.returncode == 0, done.stderr
        yield receiver


def newest(sent, name):
    """The newest data point of a name, for each set of attributes."""
    points = {json.dumps(n.attributes, sort_keys=True): n for n in sent.numbers(name)}
    return list(points.values())


def test_lines_of_the_log_come_with_the_trace_and_their_attributes(sent):
    (service, line), (_, failed) = sent.lines()
    (span,) = sent.named("work")
    assert service == "penstock-worker"
    assert line.trace_id == failed.trace_id == span.trace_id
    assert line.span_id == span.span_id
    assert attributes(line.attributes)["connector"] == "orders"
    assert (line.severity_text, failed.severity_text) == ("WARNING", "ERROR")


def test_secrets_are_masked_in_what_is_sent(sent):
    (_, line), (_, failed) = sent.lines()
    assert line.body.string_value == "the password is ***"
    assert "ValueError: ***" in attributes(failed.attributes)["exception.stacktrace"]
    assert "hunter22" not in str(sent.lines()) + str(sent.spans())


def test_a_worker_tells_its_tasks(sent):
    (read,) = newest(sent, "penstock.task.rows.read")
    assert (read.service, read.value) == ("penstock-worker", 7)
    assert read.attributes == {"connector": "orders", "task": "3"}
    (lines,) = newest(sent, "penstock.dataset.rows.read")
    assert (lines.value, lines.attributes["dataset"]) == (5, "lines")
    assert not sent.numbers("penstock.task.rows.left"), "what is unknown is left out"
    (count,) = newest(sent, "penstock.plugin.count")
    assert (count.value, count.attributes["name"]) == (2, "requests_total")
    (value,) = newest(sent, "penstock.plugin.value")
    assert (value.value, value.attributes["end"]) == (0.5, "sink")


def test_calls_are_measured_and_the_process_is(sent):
    calls = {
        n.attributes.get("error.type", ""): n for n in newest(sent, "rpc.server.call.duration")
    }
    assert {code: n.count for code, n in calls.items()} == {"": 1, "config.bad": 1}
    assert calls[""].attributes["rpc.method"] == "a/B"
    (memory,) = newest(sent, "process.memory.usage")
    assert 10e6 < memory.value < 1e9
    assert newest(sent, "process.cpu.time")[0].value > 0
