"""A source's monitor over the wire: what it may ask for, and how it ends."""

import queue
import threading

import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.error.v1 import diagnostic_pb2 as error_pb
from penstock_connector import ConfigError, Partition, Source
from penstock_connector import _monitoring as monitoring
from penstock_connector.testing import Call, RemoteError, Testbed, source_monitor


class Shards(Source):
    """Has the shards that a test says."""

    name = "shards"
    shards = ("a",)
    monitor_every = 0.01

    @classmethod
    def plan(cls, config, max_tasks, known):
        return [Partition({"shard": shard}) for shard in cls.shards]


def watching(method, **more):
    """A source with a monitor of its own."""
    return type("Watched", (Shards,), {"monitor": classmethod(method), "monitor_every": 0, **more})


def having(*shards):
    return type("Some", (Shards,), {"shards": shards})


def planned(kind, most=2):
    with Testbed(kind) as bed:
        request = pb.PlanRequest(target=pb.Target(connector=kind.name), max_tasks=most)
        return ConnectorServiceStub(bed.channel).Plan(request, metadata=bed.metadata, timeout=60)


A, B = Partition({"shard": "a"}), Partition({"shard": "b"})


def test_the_default_asks_for_a_plan_when_partitions_appear_or_vanish():
    kind = having("a")
    with source_monitor(kind, {}, [A]) as task:
        kind.shards = ("a", "b")
        assert task.replan() == "1 partitions appeared, 0 are gone"
        task.tell([A, B])
        kind.shards = ("b",)
        while (found := task.replan()) == "1 partitions appeared, 0 are gone":
            pass  # was under way
        assert found == "0 partitions appeared, 1 are gone"


def test_what_appeared_before_the_monitor_is_found_by_its_first_look():
    kind = type("Rare", (having("a", "b"),), {"monitor_every": 3600.0})
    with source_monitor(kind, {}, [A]) as task:
        assert task.replan() == "1 partitions appeared, 0 are gone"


def test_it_asks_again_while_it_is_not_followed_and_is_quiet_once_it_is():
    kind = having("a", "b")
    with source_monitor(kind, {}, [A]) as task:
        assert task.replan() == task.replan()
        task.tell([A, B])
        while True:  # what was under way
            try:
                task.replan(timeout=0.5)
            except TimeoutError:
                return


def test_a_plan_in_parts_counts_when_it_is_whole():
    seen = []

    def monitor(cls, config, monitor):
        while monitor.wait(60):
            seen.append([p.key["shard"] for p in monitor.partitions])
            monitor.replan("seen")

    with source_monitor(watching(monitor), {}, [A]) as task:
        assert task.replan() == "seen"  # the first plan
        message = pb.MonitorRequest(more_tasks=True)
        message.tasks.add().partitions.add(partition_id=A.id)
        task.call.send(message)
        task.tell([B])
        assert task.replan() == "seen"
    assert seen == [["a"], ["a", "b"]]


def test_a_plan_says_whether_there_is_a_monitor():
    assert planned(Shards).monitor
    assert not planned(type("Still", (Shards,), {"monitor_every": 0.0})).monitor
    assert planned(watching(lambda cls, config, monitor: None)).monitor

    def only_for_several(cls, config, max_tasks):
        return max_tasks > 1

    kind = type("Some", (Shards,), {"monitored": classmethod(only_for_several)})
    assert [planned(kind, most).monitor for most in (1, 2)] == [False, True]


def test_an_error_of_the_monitor_ends_the_call_with_its_diagnostic():
    def monitor(cls, config, monitor):
        raise ConfigError("shards.gone", "there are no shards", fix="Make some.")

    with source_monitor(watching(monitor), {}) as task, pytest.raises(RemoteError) as caught:
        list(task.call.receive_all())
    assert caught.value.code == "shards.gone"


def test_a_warning_is_told_and_the_monitor_goes_on():
    def monitor(cls, config, monitor):
        monitor.warn(ConfigError("shards.few", "there are few shards"))
        monitor.replan("all the same")

    with source_monitor(watching(monitor), {}) as task:
        diagnostic = task.until("diagnostic").diagnostic
        assert diagnostic.severity == error_pb.SEVERITY_WARNING
        assert diagnostic.code == "shards.few"
        assert task.replan() == "all the same"


def test_a_monitor_ends_when_the_host_hangs_up():
    ended = threading.Event()

    def monitor(cls, config, monitor):
        while monitor.wait(3600):
            pass
        ended.set()

    with source_monitor(watching(monitor), {}) as task:
        task.call.hang_up()
        assert list(task.call.receive_all()) == []
        assert ended.wait(60)


def test_a_monitor_ends_when_the_host_is_lost():
    ended = threading.Event()

    def monitor(cls, config, monitor):
        monitor.stopping.wait(3600)
        ended.set()

    with Testbed(kind := watching(monitor)) as bed:
        with source_monitor(kind, {}, bed=bed):
            pass
        assert ended.wait(60)


def test_a_monitor_that_hangs_holds_up_neither_its_end_nor_other_calls(monkeypatch):
    monkeypatch.setattr(monitoring, "_END_WITHIN", 0.1)
    release = threading.Event()

    def monitor(cls, config, monitor):
        release.wait(60)

    kind = watching(monitor)
    with Testbed(kind) as bed:
        request = pb.PlanRequest(target=pb.Target(connector=kind.name), max_tasks=1)
        stub = ConnectorServiceStub(bed.channel)
        with source_monitor(kind, {}, bed=bed) as task:
            assert stub.Plan(request, metadata=bed.metadata, timeout=60).partitions
            task.call.hang_up()
            assert list(task.call.receive_all()) == []
    release.set()


def test_a_monitor_that_floods_is_slowed_by_a_host_that_does_not_read():
    said, begun = [], threading.Event()

    def monitor(cls, config, monitor):
        while not monitor.stopping.is_set():
            monitor.replan("x" * 10_000)
            said.append(1)
            begun.set()

    kind = watching(monitor)
    first = pb.MonitorRequest(target=pb.Target(connector=kind.name), max_tasks=1)
    requests = queue.SimpleQueue()
    requests.put(first)
    with Testbed(kind) as bed:
        stub = ConnectorServiceStub(bed.channel)
        call = stub.Monitor(iter(requests.get, None), metadata=bed.metadata)
        assert next(call).HasField("opened")
        assert begun.wait(60)
        before = -1
        while len(said) != before:  # the outbox, and what gRPC takes beyond it
            before = len(said)
            threading.Event().wait(0.3)
        assert 0 < before < 5000
        call.cancel()
        requests.put(None)


def test_a_monitor_says_that_it_lives(monkeypatch):
    monkeypatch.setattr(monitoring, "HEARTBEAT", 0.05)
    with source_monitor(watching(lambda cls, config, monitor: None), {}) as task:
        assert task.opened.heartbeat_every.ToMilliseconds() == 50
        assert task.until("progress").HasField("progress")


def test_the_first_message_must_have_a_target():
    with Testbed(Shards) as bed:
        call = Call(ConnectorServiceStub(bed.channel).Monitor, bed.metadata)
        call.send(pb.MonitorRequest(max_tasks=1))
        with pytest.raises(RemoteError) as caught:
            call.receive()
        call.cancel()
    assert caught.value.code == "monitor.not_opened"
