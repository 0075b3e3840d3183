"""The workers of a cluster keep topics at one place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.cluster.instance import Instance, normalize_topics_dir
from penstock.cluster.settings import InstanceSettings, instance_settings
from penstock.model.errors import ConfigError
from support.etcd import EtcdServers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


def worker(servers: EtcdServers, cluster: str, **keys: str) -> InstanceSettings:
    told = {"etcd.endpoints": ",".join(servers.endpoints), "cluster.name": cluster}
    return instance_settings("worker", told | keys, {})


async def joined(instance: Instance) -> None:
    instance.address = "127.0.0.1:1"
    instance.join()
    await instance.membership.wait_until_registered()


def test_a_worker_with_another_place_of_topics_is_refused(servers, tmp_path):
    first, second = (
        worker(servers, "apart", **{"state.dir": str(tmp_path / name)}) for name in ("a", "b")
    )

    async def main() -> None:
        async with Instance(first) as instance:
            await joined(instance)
            with pytest.raises(ConfigError) as caught:
                async with Instance(second):
                    pass
            told = caught.value.diagnostic
            assert (told.code, told.config_path) == ("cluster.topics_elsewhere", "topics.dir")
            for place in ("a/topics", "b/topics"):
                assert str(tmp_path / place) in told.message
        async with Instance(second) as instance:  # nobody is left that the old place binds
            await joined(instance)

    asyncio.run(main())


def test_of_two_workers_that_start_together_one_stays(servers, tmp_path):
    first, second = (
        worker(servers, "together", **{"topics.dir": str(tmp_path / name)}) for name in ("a", "b")
    )

    async def main() -> None:
        async with Instance(first) as one, Instance(second) as two:
            with pytest.raises(ConfigError, match=r"cluster\.topics_elsewhere"):
                await joined(one)
            await joined(two)

    asyncio.run(main())


def test_equal_places_have_equal_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {
        normalize_topics_dir(f"{tmp_path}/t"),
        normalize_topics_dir(f"file://{tmp_path}/t/"),
        normalize_topics_dir("x/../t"),
    } == {str(tmp_path / "t")}
    assert normalize_topics_dir("s3://key:hunter2@rows/shop/") == "s3://rows/shop"
