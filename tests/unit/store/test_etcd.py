"""The driver for etcd: its limits, and how it says so."""

from __future__ import annotations

import asyncio

import pytest

from penstock.etcd import Etcd
from penstock.model.errors import ConfigError, RetriableError
from penstock.store.etcd import EtcdStore
from penstock.store.port import Check
from support.etcd import EtcdServers
from support.processes import free_ports


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One etcd for these tests."""
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


def running(settings, test, **limits):
    async def main():
        store = EtcdStore(await Etcd.connect(settings), **limits)
        try:
            async with asyncio.timeout(60):
                await test(store)
        finally:
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("checks", "puts", "names"),
    [
        (129, 1, "--max-txn-ops"),
        (1, 4100, "--max-txn-ops"),
        (0, 1600, "--max-request-bytes"),
    ],
)
def test_a_write_over_a_limit_is_refused_whole_with_the_option_that_lifts_it(
    servers, checks, puts, names
):
    async def test(store):
        value = b"x" * (1000 if puts == 1600 else 1)
        with pytest.raises(ConfigError, match=rf"store\.write_too_large.*{names}"):
            await store.write(
                [Check(f"{i}", 0) for i in range(checks)], [(f"{i}", value) for i in range(puts)]
            )
        assert not (await store.range("")).entries

    running(servers.patient_settings(cluster="limits"), test)


def test_a_limit_that_only_etcd_knows_of_is_told_alike(servers):
    async def test(store):
        with pytest.raises(ConfigError, match=r"store\.write_too_large"):
            await store.write([], [("a", b"x" * 1_700_000)])
        with pytest.raises(ConfigError, match=r"store\.write_too_large"):
            await store.write([Check(f"{i}", 0) for i in range(200)], [("a", b"")])
        assert not (await store.range("")).entries

    running(servers.patient_settings(cluster="theirs"), test, max_bytes=64 << 20, max_ops=10_000)


def test_the_largest_write_within_the_limits_goes_through(servers):
    async def test(store):
        await store.write([Check("0", 0)], [(f"{i}", b"x" * 300) for i in range(4000)])
        assert len((await store.range("", limit=5000)).entries) == 4000

    running(servers.patient_settings(cluster="largest"), test)


def test_two_clusters_in_one_etcd_do_not_see_each_other(servers):
    async def fill(store):
        await store.write([], [("k", b"1")])

    async def empty(store):
        assert not (await store.range("")).entries

    running(servers.patient_settings(cluster="a"), fill)
    running(servers.patient_settings(cluster="a.b"), empty)


def test_etcd_away_at_the_start_has_a_code_of_the_store(servers):
    async def main():
        away = (f"127.0.0.1:{free_ports(1)[0]}",)
        with pytest.raises(RetriableError, match=r"store\.unreachable.*connect"):
            await EtcdStore.open(servers.settings(endpoints=away, connect_timeout_s=0.5))

    asyncio.run(main())
