"""A connector's monitor, as the host sees it: wishes are heard, and nothing else is believed."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.connector import Partition, TaskPlan
from penstock.model.errors import ErrorClass, PenstockError
from penstock.plugin.limits import Deadlines
from penstock.plugin.streams import monitor_stream as monitoring_module
from penstock.plugin.streams.monitor_stream import PluginMonitor

QUICK = Deadlines(handshake_s=60, health_s=60, describe_s=60, open_s=60, send_s=60, end_s=0.5)
HASTY = replace(QUICK, open_s=0.5)
PLANS = [TaskPlan("g-0", (Partition({"file": "a"}),)), TaskPlan("g-1")]
QUIET = {"take": 1000}
"""What a monitor does that has nothing to say."""


class Watching:
    """Opens a monitor that plays a script."""

    def __init__(self, kit, run, caplog):
        self.kit, self.run, self.caplog = kit, run, caplog

    def __call__(self, script, body, deadlines=QUICK, plans=PLANS):
        """Run `body(monitor, process)` on a monitor that plays a script."""

        async def scenario():
            async with self.kit.running(deadlines=deadlines) as process:
                target = self.kit.target(script=self.kit.script(script))
                monitor = PluginMonitor(process, target, 3)
                await monitor.open(plans)
                try:
                    return await body(monitor, process)
                finally:
                    await monitor.close()

        with self.caplog.at_level(logging.INFO, "penstock.plugin"):
            return self.run(scenario())

    def failure(self, *script, **more):
        """Return the error that a monitor ends with; `script` follows its first message."""

        async def body(monitor, _):
            return await everything(monitor)

        with pytest.raises(PenstockError) as caught:
            self([opened(), *script], body, **more)
        return caught.value

    def said(self, word):
        """Return what the plugin printed after a word, as JSON."""
        lines = [m.split(f"{word} ", 1)[1] for m in self.caplog.messages if f"{word} " in m]
        return list(map(json.loads, lines))


@pytest.fixture
def watching(kit, run, caplog):
    return Watching(kit, run, caplog)


def opened(heartbeat=30):
    frame = pb.MonitorResponse(opened=pb.MonitorOpened())
    frame.opened.heartbeat_every.FromMilliseconds(int(heartbeat * 1000))
    return frame


def replan(reason="found", **more):
    return pb.MonitorResponse(replan=pb.Replan(reason=reason), **more)


async def first(monitor, _=None):
    return await anext(aiter(monitor))


async def everything(monitor):
    async for _ in monitor:
        pass


def test_a_wish_is_heard(watching):
    assert watching([opened(), replan("two tables")], first) == "two tables"


def test_the_first_message_has_all_that_is_in_force(watching):
    watching([opened(), replan()], first)
    (message,) = watching.said("watch")
    assert message["target"]["secrets"] != {"password": "s3cr3t-canary"}  # hidden from the log
    assert message["maxTasks"] == 3
    assert [task["taskId"] for task in message["tasks"]] == ["g-0", "g-1"]


def test_new_plans_are_told_in_parts_of_a_bounded_size(watching, kit, monkeypatch):
    monkeypatch.setattr(monitoring_module, "_PART_BYTES", 100)
    plans = [TaskPlan(f"g-{n}", (Partition({"file": "x" * 60}),)) for n in range(3)]

    async def body(monitor, _):
        await monitor.set_plans(plans)
        await kit.until(lambda: len(watching.said("took")) == 3)

    watching([opened(), {"take": 3}], body)
    took = watching.said("took")
    assert [message.get("moreTasks", False) for message in took] == [True, True, False]
    assert [task["taskId"] for message in took for task in message["tasks"]] == [
        "g-0", "g-1", "g-2",
    ]  # fmt: skip


def test_of_several_wishes_the_last_one_is_left(watching, monkeypatch):
    monkeypatch.setattr(monitoring_module, "_READ_PAUSE_S", 0.0)

    async def body(monitor, _):
        while "third" not in monitor._replan_reason:
            await asyncio.sleep(0.01)
        return [await first(monitor), monitor._replan_reason]

    script = [opened(), replan("first"), replan("second"), replan("third")]
    assert watching(script, body) == ["third", ""]


def test_a_reason_is_cut_escaped_and_has_no_secret(watching):
    wish = watching([opened(), replan("\x1b[2J s3cr3t-canary " + "x" * 10_000)], first)
    assert wish.startswith("\\x1b[2J *")
    assert "s3cr3t" not in wish
    assert len(wish) < 250


def test_a_monitor_that_floods_is_slowed_and_costs_the_host_nothing(watching, kit):
    """Some wishes of ten kilobytes fit into gRPC's windows; then it waits until it is read."""

    async def body(monitor, _):
        await kit.until(lambda: watching.said("shouted"))
        count = -1
        while count != (count := watching.said("shouted")[-1]):
            await asyncio.sleep(0.3)
        return count, len(monitor._replan_reason)

    count, size = watching([opened(), {"shout": "x" * 10_000}], body)
    assert count < 3000
    assert size < 250


def test_a_warning_is_logged_and_the_monitor_goes_on(watching, caplog):
    warning = diagnostic_pb2.Diagnostic(code="x.few", message="s3cr3t-canary", severity=2)
    script = [opened(), pb.MonitorResponse(diagnostic=warning), replan("on")]
    assert watching(script, first) == "on"
    (line,) = [r.getMessage() for r in caplog.records if r.name == monitoring_module.__name__]
    assert "x.few" in line
    assert "s3cr3t" not in line


def test_an_error_that_it_tells_ends_it(watching):
    diagnostic = diagnostic_pb2.Diagnostic(
        code="x.gone", message="no database", severity=3, error_class=2
    )
    error = watching.failure(pb.MonitorResponse(diagnostic=diagnostic))
    assert (error.code, error.diagnostic.error_class) == ("x.gone", ErrorClass.CONFIG)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([{"refuse": "mine.bad"}], "mine.bad"),
        ([{"end": 1}], "plugin.stream_ended"),
        ([{"crash": 9}], "plugin.crashed"),
        ([opened()], "plugin.protocol.second_opened"),
    ],
    ids=["refuses", "ends", "crashes", "opened twice"],
)
def test_a_rude_monitor_ends_with_a_reason(watching, script, code):
    assert watching.failure(*script).code == code


def test_what_a_newer_plugin_may_say_is_passed_over(watching):
    script = [opened(), pb.MonitorResponse(), pb.MonitorResponse(progress={}), replan("on")]
    assert watching(script, first) == "on"


def test_a_monitor_that_is_silent_is_taken_for_hung(watching):
    async def body(monitor, _):
        await everything(monitor)

    with pytest.raises(PenstockError, match=r"nothing for 0\.1 s") as caught:
        watching([opened(0.05), {"hang": 1}], body)
    assert caught.value.code == "plugin.heartbeat_missed"
    assert caught.value.diagnostic.error_class is ErrorClass.RETRIABLE


@pytest.mark.parametrize(
    ("script", "code"),
    [([{"hang": 1}], "plugin.deadline"), ([replan()], "plugin.protocol.not_opened")],
    ids=["says nothing", "says something else"],
)
def test_a_monitor_that_does_not_open_is_refused(watching, script, code):
    with pytest.raises(PenstockError) as caught:
        watching(script, first, deadlines=HASTY if {"hang": 1} in script else QUICK)
    assert caught.value.code == code


def test_the_stage_that_took_too_long_is_named(watching):
    with pytest.raises(PenstockError, match=r"plugin\.monitor\.open took longer than 0\.5 s"):
        watching([{"hang": 1}], first, deadlines=HASTY)


@pytest.mark.timed("the end of a monitor has its own deadline")
def test_a_monitor_that_hangs_holds_its_end_up_for_no_longer_than_it_may(watching):
    async def body(monitor, process):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await monitor.close()
        return loop.time() - began, process.alive

    took, alive = watching([opened(), {"hang": 1}], body)
    assert 0.4 < took < 3
    assert alive


def test_a_monitor_ends_when_the_host_hangs_up(watching):
    async def body(monitor, _):
        pump = monitor._receiver
        await monitor.close()
        return pump.cancelled()

    deadlines = replace(QUICK, end_s=60)
    assert watching([opened()], body, deadlines=deadlines) is False


def test_a_plugin_that_died_before_is_not_asked(kit, run):
    async def scenario():
        async with kit.running() as process:
            monitor = PluginMonitor(process, kit.target(script=kit.script([{"crash": 1}])), 1)
            for code in ("plugin.crashed", "plugin.crashed"):
                with pytest.raises(PenstockError) as caught:
                    await monitor.open([])
                assert caught.value.code == code

    run(scenario())
