"""A process gets exactly its variables and a private folder, and ends with its host."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.model.errors import ConfigError
from penstock.plugin.process import guard, local_process

PROGRAM = Path(__file__).parent / "programs" / "host.py"


def facts(kit, run, modes=()):
    async def scenario():
        async with kit.running(*modes) as process:
            answer = await process.validate(kit.target())
            return process, {value.name: value.value for value in answer.values}

    return run(scenario())


def test_the_environment_is_exactly_what_the_protocol_says(kit, run, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "canary")
    _, seen = facts(kit, run)
    environment = json.loads(seen["environment"])
    environment.pop("LC_CTYPE", None)  # set by Python itself
    environment.pop("GRPC_ENABLE_FORK_SUPPORT", None)  # set by penstock in the plugin itself
    assert sorted(environment) == [
        "LANG",
        "PATH",
        "PENSTOCK_HANDSHAKE_FILE",
        "PENSTOCK_INSTANCE_NONCE",
        "PENSTOCK_PLUGIN_MAGIC_COOKIE",
        "PLUGIN_PROTOCOL_VERSIONS",
        "PLUGIN_UNIX_SOCKET_DIR",
    ]
    assert "canary" not in seen["environment"]


def test_telemetry_variables_are_given_only_by_name(kit):
    order = local_process.prepare_launch(
        kit.scripted(), kit.runtime_dir, {"OTEL_SERVICE_NAME": "x", "SECRET": "canary"}
    )
    assert order.environment["OTEL_SERVICE_NAME"] == "x"
    assert "SECRET" not in order.environment
    assert order.credential not in repr(order)
    local_process.remove_folder(order.folder)


def test_calls_carry_the_credential_of_this_launch(kit, run):
    process, seen = facts(kit, run)
    assert seen["credential"] == process.credential
    assert process.credential in seen["environment"]
    other, _ = facts(kit, run)
    assert other.credential != process.credential


def test_the_folder_is_private_and_short_and_relative_paths_are_the_hosts(kit, run):
    async def scenario():
        async with kit.running() as process:
            folder = Path(process.address.removeprefix("unix:")).parent
            assert folder.stat().st_mode & 0o777 == 0o700
            assert len(str(folder)) <= 83
            assert psutil.Process(process.pid).cwd() == str(Path.cwd())
            return folder

    assert not run(scenario()).exists()


def open_up(*places):
    for place in places:
        place.chmod(0o777)


def as_another_user(address):
    """What another user of the machine gets who connects to a socket."""
    connect = "socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die $!"
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*root, *nobody, "perl", "-MSocket", "-e", connect, address.removeprefix("unix:")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        check=False,
    )
    return done.stderr.partition(" at ")[0] if done.returncode else "connected"


def test_another_user_of_the_machine_reaches_no_plugin(kit, run):
    """Its folder keeps others out, and there is no port to guess. The twin opens the folder."""

    async def scenario():
        async with kit.running() as process:
            assert psutil.Process(process.pid).net_connections("inet") == []
            socket = Path(process.address.removeprefix("unix:"))
            open_up(kit.runtime_dir.parent, kit.runtime_dir)  # all but the plugin's own folder
            assert as_another_user(process.address) == "Permission denied"
            open_up(socket.parent, socket)
            assert as_another_user(process.address) == "connected"

    run(scenario())


@pytest.fixture
def guarding(tmp_path, monkeypatch):
    """Put another guard in the place of ours: some words replaced."""

    def put(word, other):
        text = Path(guard.__file__).read_text(encoding="utf-8")
        assert word in text
        copy = tmp_path / "guard.py"
        copy.write_text(text.replace(word, other), encoding="utf-8")
        monkeypatch.setattr(guard, "__file__", str(copy))

    return put


def status_of(pid):
    return Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


def rights(kit, run):
    """Return whether a plugin may get more rights, and what it leaves of its credential."""

    async def scenario():
        async with kit.running() as process:
            status = status_of(process.pid)
            watchers = [p for p in kit.processes() if p.pid != process.pid]
            left = [p.environ()["PENSTOCK_INSTANCE_NONCE"] for p in watchers]
            assert left
            return status, {value.replace(process.credential, "whole") for value in left}

    return run(scenario())


def test_a_plugin_gets_no_new_rights_and_its_watcher_shows_no_credential(kit, run):
    status, (left,) = rights(kit, run)
    assert "NoNewPrivs:\t1\n" in status
    assert set(left) == {"*"}


def test_a_guard_without_these_goes_red(kit, run, guarding):
    """The twin of the test above."""
    guarding("    _erase_credential()\n    for stream", "    for stream")
    assert rights(kit, run)[1] == {"whole"}
    guarding("_PR_SET_NO_NEW_PRIVS, 1", "_PR_SET_NO_NEW_PRIVS, 0")
    before = next(line for line in status_of("self").splitlines() if line.startswith("NoNewPrivs"))
    assert before in rights(kit, run)[0]


def test_a_runtime_folder_that_is_too_long_is_refused(kit):
    with pytest.raises(ConfigError) as caught:
        local_process.prepare_launch(kit.scripted(), kit.runtime_dir / ("x" * 80))
    assert caught.value.code == "plugin.runtime_dir_too_long"


def test_folders_of_dead_hosts_are_swept_and_those_of_living_ones_stay(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = [f"{gone.pid}-abcdef", f"{os.getpid()}-abcdef", "something-else"]
    for name in names:
        (tmp_path / name).mkdir()
    assert local_process.remove_stale_folders(tmp_path) == 1
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted(names[1:])


def test_a_process_leads_a_session_of_its_own_and_has_no_unknown_child(kit, run):
    async def scenario():
        async with kit.running() as process:
            assert os.getsid(process.pid) == process.pid
            assert psutil.Process(process.pid).children() == []

    run(scenario())


@pytest.mark.parametrize(
    "modes",
    [
        (),
        ("ignore_shutdown",),
        ("ignore_shutdown", "ignore_eof", "ignore_term"),
        ("ignore_term", "ignore_eof", "child"),
    ],
)
def test_stop_ends_the_whole_group_whatever_the_plugin_ignores(kit, run, modes):
    async def scenario():
        process = await kit.start(*modes)
        await process.stop(0.2)
        assert not process.alive
        await process.stop(0.2)

    run(scenario())
    kit.wait_for(lambda: not kit.processes(), "no process")


def test_what_a_crashed_plugin_had_started_is_ended_too(kit, run):
    async def scenario():
        process = await kit.start("child")
        assert len(kit.processes()) == 3  # the plugin, its child, the watcher
        os.kill(process.pid, signal.SIGKILL)
        assert await asyncio.wait_for(process.exited, 60) == -signal.SIGKILL
        await kit.until(lambda: not kit.processes())
        await process.stop()

    run(scenario())


def test_the_host_ends_the_group_of_a_crashed_plugin_without_the_watcher_too(kit, run):
    async def scenario():
        process = await kit.start("child")
        (watcher,) = [p for p in kit.processes() if guard.__file__ in p.cmdline()]
        watcher.kill()
        os.kill(process.pid, signal.SIGKILL)
        await process.exited
        await kit.until(lambda: not kit.processes())
        await process.stop()

    run(scenario())


@pytest.mark.parametrize(
    "modes",
    [
        (),
        ("ignore_eof", "ignore_term"),
        ("ignore_eof", "child"),
        ("silent",),  # while it starts
    ],
)
def test_no_process_is_left_when_the_host_is_killed(kit, modes):
    host = subprocess.Popen(
        [sys.executable, PROGRAM, str(kit.runtime_dir), *modes],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with host:
        if "silent" not in modes:
            assert host.stdout.readline() == b"started\n"
        started = kit.seen(2, "plugin and watcher", 60)
        host.kill()
        host.wait()
        kit.wait_for(lambda: not any(p.is_running() for p in started), "no orphan")
    assert local_process.remove_stale_folders(kit.runtime_dir) == 1
