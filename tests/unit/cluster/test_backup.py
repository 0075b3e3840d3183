"""A backup is one revision of the store; a restore puts it where nothing is, with later epochs."""

from __future__ import annotations

import asyncio
import itertools
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster import restore as restores
from penstock.cluster.backup import back_up
from penstock.cluster.backup_file import read_entries, verify_backup
from penstock.cluster.restore import restore
from penstock.cluster.restore_order import EPOCHS_PER_RESTORE, group_by_revision
from penstock.etcd import Etcd, operations
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.scheduler.state.records import (
    PlanRecord,
    decode_plan_record,
    encode_new_plan_record,
    encode_plan_record,
)
from penstock.store.etcd import EtcdStore
from penstock.store.port import Check, Entry
from penstock.store.sealed_store import Seal, SealedStore
from support.etcd import EtcdServers

_names = (f"backup{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One etcd for these tests."""
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


class Place:
    """The place of one cluster in etcd."""

    def __init__(self, servers: EtcdServers) -> None:
        self.servers = servers
        self.settings = servers.patient_settings(cluster=next(_names))
        self.prefix = self.settings.prefix

    def run(self, call) -> Any:
        """Call with a client."""

        async def main() -> Any:
            client = await Etcd.connect(self.settings)
            try:
                return await call(client)
            finally:
                await client.close()

        return asyncio.run(main())

    def fill(self, *writes: dict[str, bytes | None]) -> list[int]:
        """Make writes through the store; returns their revisions."""

        async def main() -> list[int]:
            store = await EtcdStore.open(self.settings)
            try:
                return [await store.write([], list(write.items())) for write in writes]
            finally:
                await store.close()

        return asyncio.run(main())

    def entries(self) -> dict[str, Entry]:
        """Return what the store has."""

        async def main() -> dict[str, Entry]:
            store = await EtcdStore.open(self.settings)
            try:
                return {one.key: one for one in (await store.range("", limit=99_999)).entries}
            finally:
                await store.close()

        return asyncio.run(main())

    def control(self, *words: str) -> str:
        """Run etcdctl."""
        return self.servers.control(0, *words)

    def lose(self) -> None:
        """Delete all of the cluster."""
        self.control("del", "--prefix", self.prefix)

    def back_up(self, to: Path) -> Path:
        """Take a backup; returns the file."""
        return self.run(lambda client: back_up(client, to)).backup.file

    def restore(self, file: Path, *epochs: int):
        """Restore a backup."""
        return self.run(lambda client: restore(client, file, *epochs))

    def refusal(self, call) -> PenstockError:
        """Return the error that a call ends with."""
        with pytest.raises(PenstockError) as caught:
            call()
        return caught.value


@pytest.fixture
def place(servers):
    """The place of a cluster of its own."""
    return Place(servers)


def test_what_comes_back_is_what_was_there_with_every_epoch_past_those_before(place, tmp_path):
    place.fill({"connector/a": b"1", "assignment/t": b"2"}, {"offset/g/p": b"\x00\xff"})
    before = place.entries()
    file = place.back_up(tmp_path)
    place.lose()
    done = place.restore(file)
    after = place.entries()
    assert {k: e.value for k, e in after.items()} == {k: e.value for k, e in before.items()}
    newest = verify_backup(file).header.revision
    assert done.epochs_above == newest + EPOCHS_PER_RESTORE
    assert min(e.revision for e in after.values()) > done.epochs_above
    (next_write,) = place.fill({"x": b""})
    assert next_write > max(e.revision for e in after.values())


def test_what_was_newer_stays_newer_and_what_was_written_together_stays_together(place, tmp_path):
    """The scheduler compares the revisions of plans, restarts and assignments."""
    place.fill(
        {"restarted/g": b"", "plan/g/index": b""},
        {"planned/h": b"", "connector/z": b""},
        {"assignment/t": b""},
        {"connector/a": b"", "revision/a/1": b""},
        {"restarted/g": b"again"},
    )

    def ranks() -> dict[str, int]:
        entries = place.entries()
        order = sorted({entry.revision for entry in entries.values()})
        return {key: order.index(entry.revision) for key, entry in entries.items()}

    before = ranks()
    assert len(set(before.values())) == 5
    file = place.back_up(tmp_path)
    place.lose()
    place.restore(file)
    assert ranks() == before


def test_plans_in_force_stay_so_whatever_revision_their_record_names(place, tmp_path):
    """A connector that was planned again with the same plans has a record that names theirs."""
    record = {"config": "digest", "monitor": False}

    def written(epoch):
        return encode_plan_record(PlanRecord(**record, epoch=epoch))

    (planned, *_) = place.fill(
        {"plan/g/index": b"", "planned/g": encode_new_plan_record(PlanRecord(**record))},
        {"assignment/g-0": b""},
        {"plan/h/index": b""},
    )
    place.fill({"planned/g": written(planned)}, {"planned/h": written(planned)})

    def in_force():
        entries = place.entries()
        found = [decode_plan_record(entries[f"planned/{one}"])[1] for one in "gh"]
        return [
            one.epoch == entries[f"plan/{name}/index"].revision
            for one, name in zip(found, "gh", strict=True)
        ]

    assert in_force() == [True, False]
    file = place.back_up(tmp_path)
    place.lose()
    place.restore(file)
    assert in_force() == [True, False]
    entries = place.entries()
    assert entries["assignment/g-0"].revision > entries["plan/g/index"].revision


def test_a_second_backup_and_restore_goes_further_up(place, tmp_path):
    revisions = place.fill({"a": b"1"})
    for _ in range(2):
        file = place.back_up(tmp_path)
        place.lose()
        place.restore(file)
        revisions.append(place.entries()["a"].revision)
    assert revisions[0] + EPOCHS_PER_RESTORE < revisions[1]
    assert revisions[1] + EPOCHS_PER_RESTORE < revisions[2]


def test_the_base_stays_where_only_the_state_was_deleted(place, tmp_path):
    """An older backup is restored over a newer one: its epochs would have been given before."""
    place.fill({"a": b"1"})
    file = place.back_up(tmp_path)
    place.lose()
    high = 1 << 50
    place.restore(file, high)
    place.control("del", "--prefix", f"{place.prefix}state/")
    assert place.restore(file).epochs_above == high
    assert place.entries()["a"].revision > high


@pytest.mark.parametrize("value", [b"1", None])
def test_a_check_with_a_revision_from_before_the_restore_fails(place, tmp_path, value):
    """Also for a key that is gone: etcd compares with 0 where there is none."""
    (old,) = place.fill({"a": b"1", "b": b""})
    file = place.back_up(tmp_path)
    place.lose()
    place.restore(file)
    place.fill({"a": value})

    async def write() -> None:
        store = await EtcdStore.open(place.settings)
        try:
            await store.write([Check("a", old)], [("a", b"2")])
        finally:
            await store.close()

    with pytest.raises(RetriableError, match=r"store\.conflict"):
        asyncio.run(write())


def test_sealed_values_are_in_the_file_as_they_are_stored_and_open_after_the_restore(
    place, tmp_path
):
    seal = Seal([bytes(range(32))])

    async def write_and_read(value: bytes | None) -> bytes:
        store = SealedStore(await EtcdStore.open(place.settings), seal)
        try:
            if value is not None:
                await store.write([], [("connector/a", value)])
            return (await store.get("connector/a"))["connector/a"].value
        finally:
            await store.close()

    asyncio.run(write_and_read(b"password-4711"))
    stored = place.entries()["connector/a"].value
    file = place.back_up(tmp_path)
    assert b"password-4711" not in stored
    assert (
        stored == {e.key: e.value for e in read_entries(verify_backup(file))}["state/connector/a"]
    )
    place.lose()
    place.restore(file)
    assert asyncio.run(write_and_read(None)) == b"password-4711"


def test_a_backup_is_one_revision_although_keys_are_written_while_it_is_read(
    place, tmp_path, monkeypatch
):
    """Each write raises all keys by one: in a snapshot they are equal."""
    keys = [f"k/{n:04}" for n in range(1500)]  # two pages
    place.fill(dict.fromkeys(keys[:750], b"0"), dict.fromkeys(keys[750:], b"0"))
    read = Etcd.range

    async def range_and_write(client, *arguments, **named):
        page = await read(client, *arguments, **named)
        await client.txn(
            [], [operations.put(f"{place.prefix}state/{keys[n]}", b"1") for n in (0, -1)], stage="t"
        )
        return page

    monkeypatch.setattr(Etcd, "range", range_and_write)
    file = place.back_up(tmp_path)
    found = {entry.value for entry in read_entries(verify_backup(file))}
    assert found == {b"0"}


def test_a_backup_begins_again_where_etcd_compacts_what_it_reads(place, tmp_path, monkeypatch):
    place.fill({f"k/{n:04}": b"" for n in range(1500)})
    read, compacted = Etcd.range, []

    async def compact_once(client, *arguments, **named):
        page = await read(client, *arguments, **named)
        if not compacted:
            compacted.append(page.revision)
            await client.txn([], [operations.put(f"{place.prefix}state/x", b"")], stage="t")
            place.control("compact", str(page.revision + 1))
        return page

    monkeypatch.setattr(Etcd, "range", compact_once)
    assert verify_backup(place.back_up(tmp_path)).entries == 1501
    assert len(list(tmp_path.iterdir())) == 1


def test_leases_are_not_in_it_and_who_agreed_on_what_is(place, tmp_path):
    place.fill({"a": b""})
    identity = json.dumps({"id": "i", "traits": {"topics": "/srv/topics", "config.store": "etcd"}})
    place.control("put", f"{place.prefix}cluster", identity)
    place.control("put", f"{place.prefix}members/worker/w", '{"address": "h:1"}')
    place.control("put", f"{place.prefix}elections/scheduler", "h:2")
    taken = place.run(lambda client: back_up(client, tmp_path))
    keys = [entry.key for entry in read_entries(taken.backup)]
    assert keys == ["cluster", "state/a"]
    assert taken.topics == "/srv/topics"
    place.lose()
    place.restore(taken.backup.file)
    assert identity in place.control("get", f"{place.prefix}cluster")


def test_a_running_cluster_is_not_restored_over(place, tmp_path):
    place.fill({"a": b""})
    file = place.back_up(tmp_path)
    place.lose()
    place.control("put", f"{place.prefix}members/worker/w7", '{"address": "h:1"}')
    error = place.refusal(lambda: place.restore(file))
    assert (error.code, "worker/w7" in str(error)) == ("restore.cluster_runs", True)
    assert place.control("get", "--prefix", f"{place.prefix}state/") == ""


def test_a_worker_that_comes_in_between_ends_the_restore_and_it_goes_on_later(
    place, tmp_path, monkeypatch
):
    place.fill({"a": b"1"}, {"b": b"2"})
    file = place.back_up(tmp_path)
    place.lose()
    member = f"{place.prefix}members/worker/w8"
    put = restores._RestoreWriter.put

    async def register_after_first(writer, entries):
        await put(writer, entries)
        place.control("put", member, '{"address": "h:1"}')

    with monkeypatch.context() as context:
        context.setattr(restores._RestoreWriter, "put", register_after_first)
        assert place.refusal(lambda: place.restore(file)).code == "restore.cluster_runs"
    assert place.refusal(place.entries).code == "store.restoring"
    assert place.refusal(lambda: place.back_up(tmp_path)).code == "store.restoring"
    place.control("del", member)
    place.restore(file)
    assert {key: entry.value for key, entry in place.entries().items()} == {"a": b"1", "b": b"2"}


def test_another_backup_does_not_go_on_where_one_was_interrupted(place, tmp_path, monkeypatch):
    place.fill({"a": b"1"})
    file = place.back_up(tmp_path)
    place.fill({"b": b"1"})
    other = place.back_up(tmp_path)
    place.lose()

    async def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(restores._RestoreWriter, "put", interrupt)
        with pytest.raises(KeyboardInterrupt):
            place.restore(file)
    error = place.refusal(lambda: place.restore(other))
    assert (error.code, f"del --prefix {place.prefix}" in str(error)) == (
        "restore.unfinished", True,
    )  # fmt: skip


def test_of_two_restores_at_once_one_is_refused(place, tmp_path, monkeypatch):
    place.fill({"a": b"1"})
    file = place.back_up(tmp_path)
    place.lose()
    begin = restores._RestoreWriter.begin

    async def begin_twice(*arguments):
        first = await begin(*arguments)
        await begin(*arguments)
        return first

    monkeypatch.setattr(restores._RestoreWriter, "begin", staticmethod(begin_twice))
    assert place.refusal(lambda: place.restore(file)).code == "restore.superseded"


def test_a_cluster_with_state_is_not_restored_over(place, tmp_path):
    place.fill({"connector/a": b"1"})
    file = place.back_up(tmp_path)
    place.fill({"connector/a": b"2"})
    error = place.refusal(lambda: place.restore(file))
    assert error.code == "restore.not_empty"
    assert f"etcdctl del --prefix {place.prefix}" in error.diagnostic.fix
    assert place.entries()["connector/a"].value == b"2"


def test_a_backup_of_another_cluster_is_refused(place, servers, tmp_path):
    place.fill({"a": b""})
    file = place.back_up(tmp_path)
    other = Place(servers)
    error = other.refusal(lambda: other.restore(file))
    assert (error.code, place.settings.cluster in str(error)) == ("restore.other_cluster", True)


def test_a_wrong_name_of_the_cluster_leaves_no_file(place, tmp_path):
    error = place.refusal(lambda: place.back_up(tmp_path))
    assert (error.code, "PENSTOCK_CLUSTER_NAME" in str(error)) == ("backup.nothing", True)
    assert list(tmp_path.iterdir()) == []


def test_state_in_postgresql_is_not_left_out_in_silence(place, tmp_path):
    place.fill({"assignment/t": b""})
    identity = {"id": "i", "traits": {"config.store": "postgresql db:5432/penstock"}}
    place.control("put", f"{place.prefix}cluster", json.dumps(identity))
    error = place.refusal(lambda: place.back_up(tmp_path))
    assert (error.code, "pg_dump" in str(error)) == ("backup.in_postgresql", True)


def test_the_file_is_the_owners_alone_and_overwrites_nothing(place, tmp_path):
    place.fill({"a": b""})
    file = place.back_up(tmp_path / "mine.backup")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_bytes()
    assert place.refusal(lambda: place.back_up(file)).code == "backup.exists"
    assert place.refusal(lambda: place.back_up(tmp_path / "no" / "f")).code == "backup.not_written"
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (content, [file])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda lines: [lines[0], lines[1].replace(b"state/a", b"state/b"), *lines[2:]], "damaged"),
        (lambda lines: lines[:-1], "damaged"),
        (lambda lines: [lines[0], *lines[2:]], "damaged"),
        (lambda lines: lines[:1], "damaged"),
        (lambda lines: [lines[0].replace(b'"revision"', b'"r"'), *lines[1:]], "damaged"),
        (lambda lines: [lines[0].replace(b": 1,", b": 2,", 1), *lines[1:]], "newer"),
        (lambda lines: lines[1:], "not_a_backup"),
        (lambda _: [b"\x00\xff" * 9000], "not_a_backup"),
        (lambda _: [], "not_a_backup"),
    ],
)
def test_a_file_that_was_changed_is_refused_before_anything_is_written(
    place, tmp_path, change, code
):
    place.fill({"a": b"1"}, {"b": b"2"})
    file = place.back_up(tmp_path)
    place.lose()
    file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))
    assert place.refusal(lambda: place.restore(file)).code == f"backup.{code}"
    assert place.control("get", "--prefix", place.prefix) == ""


def test_a_file_that_is_not_there_is_named(place, tmp_path):
    with pytest.raises(ConfigError, match=r"backup\.unreadable.*none\.backup"):
        place.restore(tmp_path / "none.backup")


def test_offsets_are_put_in_writes_that_etcd_takes(place, tmp_path, monkeypatch):
    small = {f"offset/g/{n:04}": b"x" for n in range(250)}
    large = {f"line/g/1/{n}": b"x" * 700_000 for n in range(3)}
    place.fill(small, *({key: value} for key, value in large.items()))
    file = place.back_up(tmp_path)
    place.lose()
    sizes: list[int] = []
    put = restores._RestoreWriter.put

    async def count(writer, entries):
        sizes.append(len(entries))
        await put(writer, entries)

    monkeypatch.setattr(restores._RestoreWriter, "put", count)
    place.restore(file)
    assert {k: e.value for k, e in place.entries().items()} == small | large
    assert sorted(sizes) == [1, 1, 51, 100, 100]


def test_entries_of_one_revision_are_one_group():
    entries = [Entry(key, b"", revision) for key, revision in (("a", 3), ("b", 1), ("c", 3))]
    assert [[e.key for e in group] for group in group_by_revision(entries)] == [["b"], ["a", "c"]]
