"""Numbers of processes as Prometheus takes them, and how they are asked for."""

from __future__ import annotations

import asyncio
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.gateway import clients
from penstock.gateway.clients import Processes, ProcessReports
from penstock.gateway.cluster_metrics import format_families, process_families
from penstock.model.metrics import METRIC_FAMILIES, PLUGIN_LABELS, ProcessMetric, ProcessMetrics
from penstock.rpc.server import Server, add_process_service

PARTS = "engine|host|store|member|lease|leader"
LABELS = ("service", "process", *PLUGIN_LABELS)


def families(answers):
    text = format_families(process_families(answers)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(answers):
    return {
        (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): (
            sample.value
        )
        for family in families(answers).values()
        for sample in family.samples
    }


def process(name, *numbers, service="worker", id_=""):
    return ProcessMetrics(service, name, id_ or f"{name}-id", numbers)


def told(*processes_, **fields):
    return ProcessReports(tuple(processes_), **fields)


def test_each_number_has_a_name_with_its_unit_and_a_help():
    every = [
        ProcessMetric(name, 1, dict.fromkeys(one.labels, "x"))
        for name, one in METRIC_FAMILIES.items()
    ]
    found = families(told(process("w1", *every)))
    for family in METRIC_FAMILIES.values():
        metric = found[family.name]
        assert metric.documentation == family.help
        assert metric.type == ("counter" if family.is_counter else "gauge")
        assert ("econds" in family.help) == family.name.endswith("_seconds")
        assert re.fullmatch(f"penstock_({PARTS})_[a-z_]+", family.name)


def test_numbers_are_told_by_service_and_process():
    numbers = samples(
        told(
            process(
                "w1", ProcessMetric("engine.jobs", 7), ProcessMetric("engine.job_seconds", 1.5)
            ),
            process("w2", ProcessMetric("engine.jobs", 9)),
            process("c1", ProcessMetric("store.writes", 3), service="config"),
        )
    )
    assert numbers["penstock_engine_jobs_total", "worker", "w1"] == 7
    assert numbers["penstock_engine_jobs_total", "worker", "w2"] == 9
    assert numbers["penstock_engine_job_seconds_total", "worker", "w1"] == 1.5
    assert numbers["penstock_store_writes_total", "config", "c1"] == 3


def test_processes_of_one_name_are_told_apart_by_their_ids():
    numbers = samples(
        told(
            process("host", ProcessMetric("store.writes", 1), service="config", id_="host-1"),
            process("host", ProcessMetric("store.writes", 2), service="config", id_="host-2"),
            process("host", ProcessMetric("store.writes", 3), service="offset"),
        )
    )
    name = "penstock_store_writes_total"
    assert numbers[name, "config", "host-1"] == 1
    assert numbers[name, "config", "host-2"] == 2
    assert numbers[name, "offset", "host"] == 3


def test_numbers_of_another_version_do_no_harm():
    """During a rolling update a process may have numbers, and labels, that the gateway has not."""
    labels = dict(zip(PLUGIN_LABELS, ("acme", "orders"), strict=True))
    numbers = samples(
        told(
            process(
                "w1", ProcessMetric("engine.newer", 1), ProcessMetric("host.starts", 2, labels)
            ),
            process("w2", ProcessMetric("host.starts", 3, {"newer": "x"})),
        )
    )
    name = "penstock_host_plugin_starts_total"
    assert {key: value for key, value in numbers.items() if key[0] == name} == {
        (name, "worker", "w1", "acme", "orders"): 2,
        (name, "worker", "w2", "", ""): 3,
    }


def test_the_processes_of_each_service_are_counted():
    numbers = samples(told(counts={"config": 2, "worker": 3}, silent={"worker": 1}, left_out=4))
    assert numbers["penstock_processes", "config"] == 2
    assert numbers["penstock_processes_silent", "config"] == 0
    assert numbers["penstock_processes_silent", "worker"] == 1
    assert numbers["penstock_processes_left_out",] == 4


@pytest.fixture
def address(tmp_path):
    return f"unix:{tmp_path / 'worker'}"


def asked(address, parse_listeners):
    """Ask what `places` names, of which one is a worker that runs."""

    async def ask():
        server = Server(address)
        add_process_service(
            server, "w1", "w1-id", [lambda: [ProcessMetric("engine.jobs", 7, {"a": "b"})]]
        )
        async with server:
            every = Processes(lambda: parse_listeners)
            try:
                return await every.collect_metrics()
            finally:
                await every.close()

    return asyncio.run(ask())


def test_a_process_tells_its_numbers(address):
    answers = asked(address, {"worker": [address], "config": []})
    (one,) = answers.reports
    assert (one.service, one.name, one.id) == ("worker", "w1", "w1-id")
    assert one.numbers == (ProcessMetric("engine.jobs", 7, {"a": "b"}),)
    assert (answers.counts, answers.silent, answers.left_out) == ({"worker": 1, "config": 0}, {}, 0)


def test_one_that_does_not_answer_keeps_no_number_of_the_others_back(address, monkeypatch):
    monkeypatch.setattr(
        clients, "PROCESS_TIMEOUT_S", 60.0
    )  # nobody is there, which is told at once
    answers = asked(address, {"worker": ["unix:/nobody/is/here", address]})
    assert [one.name for one in answers.reports] == ["w1"]
    assert (answers.counts, answers.silent) == ({"worker": 2}, {"worker": 1})


def test_no_more_processes_are_asked_than_the_bound(address, monkeypatch):
    monkeypatch.setattr(clients, "MAX_PROCESSES", 1)
    answers = asked(address, {"worker": [address], "zzz": ["unix:/nobody/is/here"]})
    assert [one.name for one in answers.reports] == ["w1"]
    assert (answers.counts["zzz"], answers.silent, answers.left_out) == (1, {}, 1)


def test_the_clients_of_processes_that_are_gone_are_let_go(address):
    async def ask():
        async with server_of(address):
            parse_listeners = {"worker": [address]}
            every = Processes(lambda: parse_listeners)
            await every.collect_metrics()
            assert len(every._clients) == 1
            parse_listeners.clear()
            assert (await every.collect_metrics()).reports == ()
            assert every._clients == {}

    def server_of(place):
        server = Server(place)
        add_process_service(server, "w1", "w1-id", [])
        return server

    asyncio.run(ask())
