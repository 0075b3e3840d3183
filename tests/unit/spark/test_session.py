"""The JVM: it starts, it ends with its process, its loss is noticed, and another can follow."""

import asyncio
import gc
import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from py4j.protocol import Py4JError
from pyspark.accumulators import _start_update_server

from penstock.model.errors import ConfigError, RetriableError
from penstock.model.ticket import Ticket
from penstock.spark.engine import Engine
from penstock.spark.jvm import LOG_NAME, _ignore_hang_up, _message_of, start_jvm
from penstock.spark.settings import EngineSettings
from tests.unit.spark.tiny_plugin import DEADLINE, SCHEMA, until

pytestmark = pytest.mark.usefixtures("no_kept_engine")

HOST = Path(__file__).parent / "programs" / "engine_host.py"


@pytest.fixture
def started():
    """Tells which processes were started since the test began: others here may have servers."""
    before = set(psutil.Process().children(recursive=True))
    return lambda: [p for p in psutil.Process().children(recursive=True) if p not in before]


def settings(folder: Path, **more) -> EngineSettings:
    return EngineSettings(master="local[1,1]", slots=1, local_dir=folder, **more)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a job"])
def test_the_jvm_and_all_python_workers_die_with_their_process(tmp_path, plugin, busy):
    """However it ends: here by SIGKILL, idle and while a plugin blocks."""
    arguments = [sys.executable, str(HOST), str(tmp_path / "spark")]
    if busy:
        plugin.block.clear()
        arguments.append(json.dumps(plugin.ticket("t", [[1]]).slots[0].read))
    host = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert int(host.stdout.readline())
    if busy:
        assert host.stdout.readline() == "running\n"
        asyncio.run(until(lambda: plugin.fetches, "the fetch"))
    family = psutil.Process(host.pid).children(recursive=True)
    assert len(family) >= 3  # the JVM, the daemon, a worker
    host.send_signal(signal.SIGKILL)
    host.communicate()
    _, alive = psutil.wait_procs(family, timeout=DEADLINE)
    for process in alive:
        process.kill()
    assert alive == []


def test_the_loss_of_the_jvm_is_noticed_and_named(tmp_path):
    """While it idles and in the middle of things; a new engine can follow in the same process."""

    async def run() -> None:
        engine = Engine(settings(tmp_path))
        await engine.start()
        plan = engine.build("t", SCHEMA, [], 1)
        engine._jvm.process.kill()
        async with asyncio.timeout(DEADLINE):
            await engine.lost.wait()
        with pytest.raises(RetriableError) as caught:
            engine.build("t", SCHEMA, [], 1)
        assert caught.value.code == "engine.jvm_lost"
        with pytest.raises(RetriableError) as caught:
            await engine.run(plan, Ticket("t", 1, 1, ()))
        await engine.stop()
        again = Engine(settings(tmp_path))
        await again.start()
        assert again.build("t", SCHEMA, [], 1).fused
        await again.stop()

    asyncio.run(run())


def test_a_jvm_that_is_lost_while_it_warms_up_is_lost_and_no_failed_start(tmp_path):
    """Rows may move already; whoever hosts the engine then starts anew instead of giving up."""

    async def run() -> None:
        engine = Engine(settings(tmp_path))
        starting = asyncio.ensure_future(engine.start())
        await engine.wait_until_ready()
        engine._jvm.process.kill()
        async with asyncio.timeout(DEADLINE):
            await starting
        assert engine.lost.is_set()
        await engine.stop()

    asyncio.run(run())


def test_a_job_that_loses_its_jvm_ends_with_that_code(tmp_path, plugin):
    async def run() -> None:
        engine = Engine(settings(tmp_path / "spark"))
        await engine.start()
        plan = engine.build("t", SCHEMA, [], 1)
        plugin.block.clear()
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("t", [[1]])))
        await until(lambda: plugin.fetches, "the fetch")
        engine._jvm.process.kill()
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(RetriableError) as caught:
                await job
            assert caught.value.code == "engine.jvm_lost"
            await engine.lost.wait()
        await engine.stop()

    asyncio.run(run())


def test_a_stopped_engine_leaves_no_process_and_no_file(tmp_path, monkeypatch, started):
    """It writes nowhere but into its folder, and can be stopped twice."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")

    async def run() -> None:
        engine = Engine(settings(tmp_path / "spark"))
        await engine.start()
        engine.build("t", SCHEMA, [], 1)
        family = started()
        assert family
        await engine.stop()
        await engine.stop()
        assert not engine.lost.is_set()
        _, alive = psutil.wait_procs(family, timeout=DEADLINE)
        assert alive == []
        with pytest.raises(RetriableError):
            await engine.run(None, Ticket("t", 1, 1, ()))

    asyncio.run(run())
    assert list((tmp_path / "cwd").iterdir()) == []


def test_a_start_that_nobody_wants_any_more_ends_soon(tmp_path, started):
    async def run() -> None:
        engine = Engine(settings(tmp_path))
        starting = asyncio.ensure_future(engine.start())
        await until(started, "the JVM")
        while not starting.done():
            engine.abort_start()
            await asyncio.wait({starting}, timeout=0.1)
        assert isinstance(starting.exception(), RetriableError)
        await engine.stop()

    asyncio.run(run())
    assert started() == []
    gc.collect()


def test_without_java_the_user_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        start_jvm(settings(tmp_path))
    assert caught.value.code == "engine.no_java"
    assert "JDK" in caught.value.diagnostic.fix


def test_a_jvm_that_does_not_start_says_why(tmp_path, started):
    with pytest.raises(RetriableError) as caught:
        start_jvm(settings(tmp_path, driver_memory="1k"))
    assert caught.value.code == "engine.start_failed"
    assert (tmp_path / LOG_NAME).read_text()[-200:] in caught.value.diagnostic.detail
    assert caught.value.diagnostic.detail
    assert started() == []
    gc.collect()


def test_an_error_that_the_jvm_took_along_has_words_nevertheless():
    class GoneError(Py4JError):
        def __str__(self):
            raise ConnectionRefusedError

    assert _message_of(GoneError()) == "the JVM ended"
    assert _message_of(ValueError("no")) == "no"


def test_only_the_end_of_the_jvm_is_passed_over_among_errors_of_accumulators(capfd):
    server = _start_update_server("secret", False)
    _ignore_hang_up(server)
    with socket.create_connection(server.server_address) as jvm:
        jvm.sendall(b"secret" + struct.pack("!i", 0))
        assert jvm.recv(1)  # it is known; now it ends
    with socket.create_connection(server.server_address) as stranger:
        stranger.sendall(b"guess!")
        assert not stranger.recv(1)  # hung up on, after what went before
    server.shutdown()
    server.server_close()
    printed = capfd.readouterr().err
    assert "token to the AccumulatorServer is not correct" in printed
    assert printed.count("Traceback") == 1
