"""The driver for one machine: what goes wrong, and how it says so."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from penstock.model.errors import ConfigError, ErrorClass, InternalError, PenstockError
from penstock.store.port import Check
from penstock.store.sqlite import MAX_WRITE_BYTES, SqliteStore
from penstock.store.sqlite_writer import translate_error


def opening(path):
    async def main():
        store = await SqliteStore.open(path)
        await store.close()

    return asyncio.run(main())


def running(path, test):
    async def main():
        store = await SqliteStore.open(path)
        try:
            async with asyncio.timeout(60):
                await test(store)
        finally:
            await store.close()

    asyncio.run(main())


def test_a_second_store_on_the_same_file_is_refused_naming_the_holder(tmp_path):
    path = tmp_path / "state.db"

    async def test(store):
        with pytest.raises(ConfigError, match=rf"store\.locked.*{path}.*{os.getpid()}"):
            await SqliteStore.open(path)

    running(path, test)
    opening(path)


def test_another_process_is_refused_and_a_dead_one_leaves_no_lock(tmp_path):
    path = tmp_path / "state.db"
    program = (
        "import asyncio, sys, pathlib\n"
        "from penstock.store.sqlite import SqliteStore\n"
        "async def main():\n"
        "    await SqliteStore.open(pathlib.Path(sys.argv[1]))\n"
        "    print('open', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(ConfigError, match=rf"store\.locked.*{holder.pid}"):
            opening(path)
        holder.kill()
        holder.wait(60)
    opening(path)


def test_waiting_writes_share_a_transaction(tmp_path):
    async def test(store):
        await asyncio.gather(*(store.write([], [(str(i), b"x")]) for i in range(200)))
        numbers = store.statistics()
        assert numbers["writes"] == 200
        assert numbers["groups"] < 50

    running(tmp_path / "state.db", test)


def test_a_conflict_in_a_group_touches_no_other_write_of_it(tmp_path):
    async def test(store):
        await store.write([], [("taken", b"")])
        writes = [
            store.write([Check("taken", 0)] if i % 2 else [], [(str(i), b"")]) for i in range(100)
        ]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert sum(isinstance(r, int) for r in results) == 50
        assert len((await store.range("")).entries) == 51

    running(tmp_path / "state.db", test)


def test_every_write_is_fsynced():
    """`synchronous` below FULL would pass kill -9 and lose writes in a power cut."""
    program = (
        "import asyncio, sys, pathlib, tempfile\n"
        "from penstock.store.sqlite import SqliteStore\n"
        "async def main():\n"
        "    with tempfile.TemporaryDirectory() as d:\n"
        "        store = await SqliteStore.open(pathlib.Path(d) / 's')\n"
        "        print(store._writer._connection.execute('PRAGMA synchronous').fetchone()[0])\n"
        "        await store.close()\n"
        "asyncio.run(main())\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert out.stdout.strip() == b"2"


def test_the_state_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "new" / "state.db"

    async def test(store):
        await store.write([], [("a", b"secret")])
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    running(path, test)


def test_a_damaged_file_is_told_with_its_name(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(b"this is no database at all" * 1000)
    with pytest.raises(InternalError, match=rf"store\.corrupt.*{path}.*Fix: Restore"):
        opening(path)


def test_a_file_that_is_damaged_later_is_told_on_reading(tmp_path):
    path = tmp_path / "state.db"

    async def fill(store):
        await store.write([], [(f"{i:05d}", os.urandom(500)) for i in range(2000)])

    running(path, fill)
    with path.open("r+b") as file:
        file.seek(16384)
        file.write(os.urandom(path.stat().st_size - 20480))

    async def read(store):
        with pytest.raises(PenstockError, match=r"store\.corrupt"):
            await store.range("", limit=10_000)

    running(path, read)


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(ConfigError, match=r"store\.foreign"):
        opening(path)


def test_the_state_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "state.db"
    opening(path)
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(ConfigError, match=r"store\.newer"):
        opening(path)


def test_a_full_disk_refuses_the_write_and_the_next_one_succeeds(tmp_path):
    async def test(store):
        await store.write([], [("kept", b"1")])
        store._writer._connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(PenstockError, match=r"store\.full") as caught:
            await store.write([], [("kept", b"2"), ("large", b"x" * 1_000_000)])
        assert caught.value.diagnostic.error_class is ErrorClass.RETRIABLE
        assert (await store.get("kept", "large")).keys() == {"kept"}
        store._writer._connection.execute("PRAGMA max_page_count = 100000")
        await store.write([], [("large", b"x" * 1_000_000)])

    running(tmp_path / "state.db", test)


def test_nothing_is_written_after_an_io_error(tmp_path):
    """What a failed fsync left on the disk is not known; going on would hide it."""

    class Failing:
        """A connection whose COMMIT fails once as a bad disk makes it fail."""

        def __init__(self, inner):
            self.inner, self.failed = inner, False

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def execute(self, statement, *args):
            if statement == "COMMIT" and not self.failed:
                self.failed = True
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
                raise error
            return self.inner.execute(statement, *args)

    async def test(store):
        store._writer._connection = Failing(store._writer._connection)
        for _ in range(2):
            with pytest.raises(PenstockError, match=r"store\.io.*FSYNC"):
                await store.write([], [("a", b"1")])
        assert not await store.get("a")

    running(tmp_path / "state.db", test)


def test_a_write_over_the_limit_is_refused(tmp_path):
    async def test(store):
        with pytest.raises(ConfigError, match=r"store\.write_too_large"):
            await store.write([], [("a", b"x" * (MAX_WRITE_BYTES + 1))])

    running(tmp_path / "state.db", test)


def test_a_writer_that_is_cancelled_harms_no_other(tmp_path):
    async def test(store):
        writes = [asyncio.ensure_future(store.write([], [(str(i), b"")])) for i in range(100)]
        await asyncio.sleep(0)
        for write in writes[::2]:
            write.cancel()
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(result, int) for result in results[1::2])
        await store.write([], [("after", b"")])

    running(tmp_path / "state.db", test)


def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"store\.unreachable"):
        opening(tmp_path / "file" / "state.db")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (sqlite3.SQLITE_READONLY, "store.read_only"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "store.read_only"),
        (sqlite3.SQLITE_CANTOPEN, "store.unreachable"),
        (sqlite3.SQLITE_BUSY, "store.busy"),
        (sqlite3.SQLITE_IOERR_READ, "store.io"),
        (sqlite3.SQLITE_FULL, "store.full"),
        (sqlite3.SQLITE_NOTADB, "store.corrupt"),
        (sqlite3.SQLITE_MISUSE, "store.failed"),
    ],
)
def test_every_kind_of_failure_has_its_code(tmp_path, number, code):
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = number
    error.sqlite_errorname = "NAME"
    assert translate_error(error, tmp_path / "state.db").code == code


def test_a_read_only_file_system_is_told():
    """/proc is one that every Linux has."""
    from pathlib import Path

    with pytest.raises(ConfigError, match=r"store\.(read_only|unreachable)"):
        opening(Path("/proc/self/state.db"))
