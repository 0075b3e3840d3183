"""A backup of one kind of store comes back into any other: etcd, PostgreSQL, the file of a node."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.backup import back_up
from penstock.cluster.backup_file import read_entries, verify_backup
from penstock.cluster.instance import Instance
from penstock.cluster.node_backup import back_up_node, restore_node
from penstock.cluster.restore import RestorePlace, restore
from penstock.cluster.restore_order import EPOCHS_PER_RESTORE
from penstock.cluster.settings import instance_settings
from penstock.etcd import Etcd
from penstock.model.errors import PenstockError
from penstock.standalone.settings import STATE_FILE
from penstock.store.etcd import EtcdStore
from penstock.store.port import Entry, Store
from penstock.store.postgresql.store import PostgresqlStore
from penstock.store.sealed_store import Seal, SealedStore
from penstock.store.sqlite import SqliteStore
from support.etcd import EtcdServers
from support.postgresql import PostgresqlServer, postgresql_programs

KINDS = ("etcd", "postgresql", "node")

CONNECTOR, GENERATION, OFFSET = "connector/orders", "generation/g", "offset/g/p"
OTHER, ASSIGNMENT = "connector/people", "assignment/g-0"
WRITES = (
    {CONNECTOR: b"1", GENERATION: b"orders"},
    {OTHER: b"2"},
    {OFFSET: b"\x00\xff", "floor/g": b"7"},
    {CONNECTOR: b"3"},
)

_names = itertools.count()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    """One etcd for these tests."""
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@pytest.fixture(scope="module")
def postgresql():
    """One PostgreSQL for these tests."""
    with PostgresqlServer() as server:
        yield server


class Place:
    """An empty place of one kind."""

    def __init__(self, kind: str, etcd: EtcdServers, server: PostgresqlServer, root: Path) -> None:
        number = next(_names)
        self.kind, self.etcd, self.server = kind, etcd, server
        self.folder = root / f"node{number}"
        self.settings = etcd.patient_settings(cluster="orders")
        self.database = server.settings(f"s{number}") if kind == "postgresql" else None
        self.empty()

    def empty(self) -> None:
        """Delete all that is there."""
        if self.kind == "node":
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.etcd.control(0, "del", "--prefix", self.settings.prefix)
        if self.database is not None:
            self.server.sql(f"DROP SCHEMA IF EXISTS {self.database.schema} CASCADE")

    async def _open(self) -> Store:
        if self.kind == "node":
            return await SqliteStore.open(self.folder / STATE_FILE)
        if self.database is not None:
            return await PostgresqlStore.open(self.database)
        return await EtcdStore.open(self.settings)

    def fill(self, *writes: dict[str, bytes], seal: Seal | None = None) -> None:
        """Write as config and offset service do, and, in a cluster, as the scheduler does."""

        async def main() -> None:
            store = SealedStore(await self._open(), seal or Seal())
            try:
                for write in writes:
                    await store.write([], list(write.items()))
            finally:
                await store.close()

        asyncio.run(main())
        if self.kind == "node":
            return
        self.etcd.control(0, "put", f"{self.settings.prefix}state/{ASSIGNMENT}", "w1")
        place = "etcd" if self.database is None else f"postgresql {self.database.location()}"
        traits = {"config.store": place, "offset.store": place, "topics": "/srv/topics"}
        identity = json.dumps({"id": "i", "traits": traits})
        self.etcd.control(0, "put", f"{self.settings.prefix}cluster", identity)

    def entries(self, seal: Seal | None = None) -> dict[str, Entry]:
        """Return what config and offset service find."""

        async def main() -> dict[str, Entry]:
            store = SealedStore(await self._open(), seal or Seal())
            try:
                found = (await store.range("", limit=99_999)).entries
            finally:
                await store.close()
            return {one.key: one for one in found if one.key != ASSIGNMENT}

        return asyncio.run(main())

    def values(self) -> dict[str, bytes]:
        """Return the values of `entries`."""
        return {key: entry.value for key, entry in self.entries().items()}

    def _call(self, call: Any) -> Any:
        async def main() -> Any:
            client = await Etcd.connect(self.settings)
            try:
                return await call(client)
            finally:
                await client.close()

        return asyncio.run(main())

    def back_up(self, to: Path) -> Path:
        """Take a backup; returns the file."""
        if self.kind == "node":
            return back_up_node(self.folder, to).backup.file
        taken = self._call(lambda client: back_up(client, to, self.database))
        assert taken.topics == "/srv/topics"
        return taken.backup.file

    def restore(self, file: Path, *, keeps: bool = False) -> Any:
        """Restore a backup."""
        if self.kind == "node":
            return restore_node(self.folder, file)
        place = RestorePlace(self.database, keeps)
        return self._call(lambda client: restore(client, file, place=place))

    def traits(self) -> dict[str, str]:
        """Return on what the services of the cluster agreed."""
        found = self.etcd.control(0, "get", "--print-value-only", f"{self.settings.prefix}cluster")
        return dict(json.loads(found)["traits"]) if found.strip() else {}

    def command(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a verb as a user would, with its options and variables."""
        variables["PENSTOCK_ETCD_ENDPOINTS"] = ",".join(self.settings.endpoints)
        variables["PENSTOCK_CLUSTER_NAME"] = self.settings.cluster
        if self.database is not None:
            variables["PENSTOCK_STORE"] = "postgresql"
            variables["PENSTOCK_STORE_URL"] = self.database.url.reveal()
            variables["PENSTOCK_STORE_SCHEMA"] = self.database.schema
        more = ["--state", str(self.folder)] if self.kind == "node" else []
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli", *words, *more],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def make(etcd, postgresql, tmp_path):
    """Makes an empty place of a kind. There is one cluster: the last one that was made."""
    return lambda kind: Place(kind, etcd, postgresql, tmp_path)


def refusal(call) -> PenstockError:
    """Return the error that a call ends with."""
    with pytest.raises(PenstockError) as caught:
        call()
    return caught.value


def ranks(entries: dict[str, Entry], *keys: str) -> list[int]:
    """Return the places of keys among each other, by their revisions."""
    order = sorted({entries[key].revision for key in keys})
    return [order.index(entries[key].revision) for key in keys]


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("of", KINDS)
def test_a_backup_comes_back_into_a_store_of_any_kind(make, tmp_path, of, to):
    before = make(of)
    before.fill(*WRITES)
    was = before.entries()
    file = before.back_up(tmp_path)
    before.empty()
    place = make(to)
    done = place.restore(file)
    now = place.entries()
    assert {k: e.value for k, e in now.items()} == {k: e.value for k, e in was.items()}
    keys = (GENERATION, OTHER, CONNECTOR)
    assert ranks(now, *keys) == ranks(was, *keys) == [0, 1, 2]
    newest = verify_backup(file).header.revision
    assert done.epochs_above == newest + EPOCHS_PER_RESTORE
    assert min(entry.revision for entry in now.values()) > done.epochs_above
    place.fill({"x": b""})
    assert place.entries()["x"].revision > max(entry.revision for entry in now.values())


@pytest.mark.parametrize(("of", "to"), [("etcd", "postgresql"), ("postgresql", "etcd")])
def test_the_services_find_the_store_into_which_it_came(make, tmp_path, of, to):
    before = make(of)
    before.fill(*WRITES)
    file = before.back_up(tmp_path)
    before.empty()
    place = make(to)
    place.restore(file)
    expected = "etcd" if to == "etcd" else f"postgresql {place.database.location()}"
    assert place.traits() == {
        "config.store": expected,
        "offset.store": expected,
        "topics": "/srv/topics",
    }
    stored = place.etcd.control(0, "get", "--prefix", f"{place.settings.prefix}state/connector")
    assert bool(stored.strip()) == (to == "etcd")
    assert place.etcd.control(0, "get", f"{place.settings.prefix}state/{ASSIGNMENT}").strip()


@pytest.mark.parametrize("to", ["etcd", "postgresql"])
@pytest.mark.parametrize("of", ["etcd", "postgresql"])
def test_what_is_sealed_stays_sealed_and_opens_with_its_key(make, tmp_path, of, to):
    seal = Seal([bytes(range(32))])
    before = make(of)
    before.fill({CONNECTOR: b"password-4711"}, seal=seal)
    file = before.back_up(tmp_path)
    assert b"password-4711" not in b"".join(e.value for e in read_entries(verify_backup(file)))
    before.empty()
    place = make(to)
    place.restore(file)
    assert place.entries(seal)[CONNECTOR].value == b"password-4711"
    assert refusal(place.entries).code == "store.sealed"


def test_a_node_does_not_take_what_it_cannot_read(make, tmp_path):
    before = make("etcd")
    before.fill({CONNECTOR: b"a"}, seal=Seal([bytes(32)]))
    file = before.back_up(tmp_path)
    place = make("node")
    error = refusal(lambda: place.restore(file))
    assert (error.code, CONNECTOR in str(error)) == ("restore.sealed", True)
    assert place.entries() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_with_state_is_not_restored_over(make, tmp_path, kind):
    place = make(kind)
    place.fill(*WRITES)
    file = place.back_up(tmp_path)
    place.fill({CONNECTOR: b"newer"})
    error = refusal(lambda: place.restore(file))
    assert error.code == "restore.not_empty"
    assert place.values()[CONNECTOR] == b"newer"
    if kind == "postgresql":
        assert not place.etcd.control(0, "get", f"{place.settings.prefix}format").count("restoring")


def test_the_fixes_of_what_has_state_work_as_typed(make, tmp_path, monkeypatch):
    """`psql … DROP SCHEMA`, `rm state.db*`."""
    for kind in ("postgresql", "node"):
        place = make(kind)
        place.fill(*WRITES)
        file = place.back_up(tmp_path)
        error = refusal(lambda place=place, file=file: place.restore(file))
        command = error.diagnostic.fix.rpartition("place: ")[2]
        if place.database is not None:
            monkeypatch.setenv("PENSTOCK_STORE_URL", place.database.url.reveal())
            place.etcd.control(0, "del", "--prefix", place.settings.prefix)
        path = f"{postgresql_programs()}:{os.environ['PATH']}"
        subprocess.run(["bash", "-c", command], env={**os.environ, "PATH": path}, check=True)
        place.restore(file)
        assert place.values() == {key: value for write in WRITES for key, value in write.items()}


def test_a_database_that_is_still_there_is_kept_where_only_etcd_was_lost(make, tmp_path):
    place = make("postgresql")
    place.fill(*WRITES)
    file = place.back_up(tmp_path)
    place.fill({CONNECTOR: b"newer"})
    place.etcd.control(0, "del", "--prefix", place.settings.prefix)
    traits = {"config.store": f"postgresql {place.database.location()}"}
    assert "--keep-database" in str(refusal(lambda: place.restore(file)))
    place.restore(file, keeps=True)
    assert place.values()[CONNECTOR] == b"newer"
    assert traits.items() <= place.traits().items()
    assert place.etcd.control(0, "get", f"{place.settings.prefix}state/{ASSIGNMENT}").strip()


def test_the_database_is_named_where_no_key_names_it(make, tmp_path):
    place = make("postgresql")
    place.fill(*WRITES)
    database, place.database = place.database, None
    error = refusal(lambda: place.back_up(tmp_path))
    assert (error.code, database.location() in str(error)) == ("backup.in_postgresql", True)
    place.database = place.server.settings("elsewhere")
    error = refusal(lambda: place.back_up(tmp_path))
    assert (error.code, "elsewhere" in str(error)) == ("backup.in_postgresql", True)
    assert list(tmp_path.iterdir()) == []


def test_databases_of_their_own_are_copied_by_the_commands_that_the_error_names(make, tmp_path):
    """Config and offset service have a database each, so no single one has the state."""
    place = make("postgresql")
    place.fill(*WRITES)
    traits = place.traits() | {"offset.store": "postgresql other penstock"}
    identity = json.dumps({"id": "i", "traits": traits})
    place.etcd.control(0, "put", f"{place.settings.prefix}cluster", identity)
    error = refusal(lambda: place.back_up(tmp_path))
    assert (error.code, "`offset`" in str(error)) == ("backup.in_postgresql", True)
    dump, and_etcd = error.diagnostic.fix.partition("tools: ")[2].split(", and ")
    environment = {
        **os.environ,
        "PATH": f"{postgresql_programs()}:{os.environ['PATH']}",
        "PENSTOCK_STORE_URL": place.database.url.reveal(),
        "ETCDCTL_API": "3",
        "ETCDCTL_ENDPOINTS": ",".join(place.settings.endpoints),
    }
    for command in (dump, and_etcd):
        subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert {one.name for one in tmp_path.iterdir()} >= {"penstock.dump", "backup.db"}


def test_a_backup_of_a_database_is_one_revision_although_services_write(make, tmp_path):
    """Each write raises all keys by one: in a snapshot they are equal."""
    keys = [f"offset/g/{n:05}" for n in range(3000)]  # several pages
    place = make("postgresql")
    place.fill(dict.fromkeys(keys, b"0"))

    async def main() -> Path:
        store = await PostgresqlStore.open(place.database)
        client = await Etcd.connect(place.settings)

        async def grow() -> None:
            for n in itertools.count(1):
                await store.write([], [(key, str(n).encode()) for key in keys])

        growing = asyncio.create_task(grow())
        try:
            while (await store.get(keys[0]))[keys[0]].value == b"0":
                await asyncio.sleep(0)
            return (await back_up(client, tmp_path, place.database)).backup.file
        finally:
            growing.cancel()
            await client.close()
            await store.close()

    file = asyncio.run(main())
    values = {e.value for e in read_entries(verify_backup(file)) if "/offset/" in e.key}
    assert len(values) == 1


def test_a_node_that_runs_is_backed_up_at_one_revision_and_not_restored_over(make, tmp_path):
    place = make("node")

    async def main() -> Path:
        store = await SqliteStore.open(place.folder / STATE_FILE)
        try:
            await store.write([], [(CONNECTOR, b"1")])
            file = back_up_node(place.folder, tmp_path).backup.file
            await store.write([], [(CONNECTOR, b"2")])
            assert refusal(lambda: place.restore(file)).code == "store.locked"
            return file
        finally:
            await store.close()

    file = asyncio.run(main())
    assert [entry.value for entry in read_entries(verify_backup(file))] == [b"1"]
    assert place.values() == {CONNECTOR: b"2"}


@pytest.mark.parametrize("fault", ["store.committing", "store.committed"])
@pytest.mark.parametrize("kind", ["postgresql", "node"])
def test_a_restore_that_is_killed_shows_nothing_by_half_and_goes_on(make, tmp_path, kind, fault):
    place = make(kind)
    place.fill(*WRITES)
    file = place.back_up(tmp_path)
    place.empty()
    killed = place.command("restore", str(file), PENSTOCK_FAULTS=f"{fault}=kill@1")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = {key: value for write in WRITES for key, value in write.items()}
    if kind == "node":
        assert place.values() == (whole if fault == "store.committed" else {})
    else:
        assert refusal(lambda: place.back_up(tmp_path)).code == "store.restoring"
        assert refusal(lambda: asyncio.run(_open_store(place))).code == "store.restoring"
    again = place.command("restore", str(file), "-o", "json")
    if kind == "node" and fault == "store.committed":  # it was there already
        assert "restore.not_empty" in again.stderr
    else:
        assert again.returncode == 0, again.stderr
    assert place.values() == whole


async def _open_store(place: Place) -> None:
    """Open the store as the config service does."""
    database = place.database
    config = {
        "etcd.endpoints": ",".join(place.settings.endpoints),
        "cluster.name": place.settings.cluster,
        "store": "postgresql",
        "store.url": database.url.reveal(),
        "store.schema": database.schema,
    }
    async with Instance(instance_settings("config", config, {})) as instance:
        await instance.store()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("backup", "b.backup", "--state", "nowhere"), "backup.nothing"),
        (("backup", "b.backup", "--state", "s", "--config", "c.yaml"), "backup.two_places"),
        (("restore", "b.backup", "--state", "s", "--keep-database"), "backup.two_places"),
        (("restore", "b.backup", "--keep-database"), "restore.no_database"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, words, code):
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, code in done.stderr) == (2, True), done.stderr
