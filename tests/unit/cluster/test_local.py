"""A cluster on one machine: failures are reported, and a stop leaves no process."""

import asyncio
import fcntl
import os

import pytest

from penstock.cluster import local
from penstock.cluster.detached_process import DetachedProcess
from penstock.cluster.local import LocalCluster
from penstock.model.errors import ConfigError, RetriableError
from penstock_kit.testing import wait_until


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "cluster"
    for file in (tmp_path / "cluster").glob("*.pid"):
        DetachedProcess(file.parent, file.stem).kill()


def script(folder, text):
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def start(folder, workers=0):
    asyncio.run(LocalCluster(folder).start(workers))


def test_a_missing_etcd_is_an_error_that_names_the_package(folder, monkeypatch):
    monkeypatch.setenv("ETCD_BIN", "no-such-etcd")
    with pytest.raises(ConfigError) as error:
        start(folder)
    assert error.value.code == "cluster.no_etcd"
    assert "apt-get install" in error.value.diagnostic.fix


def test_a_process_that_ends_is_named_with_its_last_error(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ETCD_BIN", script(tmp_path, "echo the disk is on fire; exit 1"))
    with pytest.raises(RetriableError, match="etcd ended: the disk is on fire") as error:
        start(folder)
    assert error.value.code == "cluster.process_ended"
    assert "etcd.log" in error.value.diagnostic.fix


def test_a_process_that_never_answers_is_named_with_the_stage(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ETCD_BIN", script(tmp_path, "exec sleep 60"))
    monkeypatch.setattr(local, "START_TIMEOUT_S", 0.1)
    with pytest.raises(RetriableError, match=r"stage etcd answers: .* from etcd") as error:
        start(folder)
    assert error.value.code == "cluster.not_ready"
    asyncio.run(LocalCluster(folder).stop())
    assert [part.pid for part in asyncio.run(LocalCluster(folder).status())] == [None] * 5


def test_two_commands_at_once_do_not_start_processes_twice(folder):
    folder.mkdir()
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for doing in (LocalCluster(folder).start(0), LocalCluster(folder).stop()):
            with pytest.raises(RetriableError) as error:
                asyncio.run(doing)
            assert error.value.code == "cluster.busy"


def test_a_process_that_does_not_end_is_killed_and_reported(folder, monkeypatch):
    monkeypatch.setattr(local, "STOP_TIMEOUT_S", 0.2)
    folder.mkdir()
    (folder / "worker-1.json").write_text("{}")
    deaf = DetachedProcess(folder, "worker-1")
    deaf.start(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"], os.environ)
    wait_until(lambda: deaf.last_error() == "deaf", 60, "the trap to be set")
    told = []
    asyncio.run(LocalCluster(folder, told.append).stop())
    assert told[0] == "worker-1 did not end within 0.2 s: killed"
    assert deaf.pid is None


def test_stopping_nothing_succeeds_and_creates_no_folder(folder):
    asyncio.run(LocalCluster(folder).stop())
    assert not folder.exists()


def test_the_environment_sets_keys_but_not_those_of_the_local_cluster(monkeypatch):
    monkeypatch.setenv("PENSTOCK_ETCD_ENDPOINTS", "elsewhere:2379")
    monkeypatch.setenv("PENSTOCK_INSTANCE_ID", "same")
    monkeypatch.setenv("PENSTOCK_LEASE_TTL", "3s")
    environment = local.process_environment()
    assert environment["PENSTOCK_LEASE_TTL"] == "3s"
    assert not {"PENSTOCK_ETCD_ENDPOINTS", "PENSTOCK_INSTANCE_ID"} & environment.keys()


def test_a_misspelt_variable_starts_nothing(monkeypatch, folder):
    monkeypatch.setenv("PENSTOCK_LEASE_TLL", "3s")
    with pytest.raises(ConfigError, match=r"config\.unknown_variable.*PENSTOCK_LEASE_TTL"):
        asyncio.run(LocalCluster(folder).start())
    assert not folder.exists()


def test_workers_are_ordered_by_number_and_a_folder_keeps_its_ports(folder):
    folder.mkdir()
    for number in (10, 2, 1, "x"):
        (folder / f"worker-{number}.json").write_text("{}")
    assert local.worker_names(folder) == ["worker-1", "worker-2", "worker-10"]
    ports = local.load_or_choose_ports(folder)
    assert local.load_or_choose_ports(folder) == ports
