"""A plugin elsewhere: reached by its address, over TLS, found again after a loss, never ended."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock.model.connector import Partition, Target, TaskPlan
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.stream import BatchReady, EndOfStream, SchemaVersion
from penstock.model.ticket import SlotTicket, Ticket
from penstock.plugin.catalog.manifest import parse_manifest
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.host import PluginHost
from penstock.plugin.streams.source_stream import PluginSourceStream
from penstock.spark.connector_io.source_reader import read_rows
from support.certificates import Authority

MANIFEST = """
name = "counting"
version = "1"
address = "{address}"
connector = [{{ name = "source", kind = "source" }}]
{tls}
"""
MUTUAL = (
    '[tls]\nca = "ca.pem"\ncertificate = "worker.pem"\nkey = "worker.key"\nserver_name = "plugin"'
)


class Elsewhere:
    """A plugin that is served by hand, as on another machine."""

    def __init__(self, script, folder):
        self._script, self.folder = script, folder
        self.process = None
        self.port = 0

    def start(self, *options: str) -> None:
        command = [sys.executable, str(self._script), "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert "listens on" in line, line
        self.port = int(line.rpartition(":")[2])

    def start_tls(self) -> None:
        """With a certificate for the name `plugin`, asking callers for one."""
        authority = Authority(self.folder)
        certificate, key = authority.sign("plugin")
        authority.sign("worker")
        options = ("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca")
        self.start(*map(str, (*options, authority.ca)))

    def registry(self, scheme: str = "grpc", tls: str = "") -> Registry:
        address = f"{scheme}://127.0.0.1:{self.port}"
        return Registry([parse_manifest(MANIFEST.format(address=address, tls=tls), self.folder)])

    def stop(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def elsewhere(kit, tmp_path):
    """A plugin that is not started yet."""
    one = Elsewhere(kit.scripted().folder / "counting.py", tmp_path / "tls")
    one.folder.mkdir()
    yield one
    one.stop()


def host_of(kit, registry, **deadlines):
    return PluginHost(
        registry, kit.runtime_dir, deadlines=replace(kit.deadlines, **deadlines), idle_timeout_s=30
    )


async def rows_of(process) -> list[int]:
    """Read all rows as a task and an executor of it do."""
    target = Target("source", "count", {"limit": "2500"})
    stream = PluginSourceStream(process, target, TaskPlan("g-0", (Partition({"source": "c"}),)), 1)
    await stream.open()
    events = [event async for event in stream]
    assert isinstance(events[-1], EndOfStream)
    schema = next(event for event in events if isinstance(event, SchemaVersion)).schema
    ready = [event for event in events if isinstance(event, BatchReady)]
    place = stream.ticket([batch.seq for batch in ready], schema.schema_id)
    ticket = Ticket("g-0", 1, 1, (SlotTicket(0, 2500, place, {"kind": "discard"}),))
    ticket = Ticket.from_json(ticket.to_json())

    def fetched():
        return [row["n"] for b in read_rows(ticket, ticket.slots[0]) for row in b.to_pylist()]

    rows = await asyncio.to_thread(fetched)
    await stream.close()
    return rows


async def refused(host) -> str:
    with pytest.raises(PenstockError) as caught:
        await host.acquire("source")
    assert caught.value.diagnostic.fix
    await host.close()
    return caught.value.code


def test_rows_come_from_an_address(kit, run, elsewhere):
    elsewhere.start()

    async def scenario():
        host = host_of(kit, elsewhere.registry())
        process = await host.acquire("source")
        assert process.pid == 0
        assert process.dial_info == {"address": f"127.0.0.1:{elsewhere.port}", "credential": ""}
        assert await host.acquire("source") is process
        assert await rows_of(process) == list(range(2500))
        await host.close()
        assert not process.alive

    run(scenario())
    assert elsewhere.process.poll() is None  # it is not ours to end


def test_rows_come_over_tls_with_certificates_on_both_sides(kit, run, elsewhere):
    elsewhere.start_tls()

    async def scenario():
        host = host_of(kit, elsewhere.registry("grpcs", MUTUAL))
        process = await host.acquire("source")
        assert await rows_of(process) == list(range(2500))
        assert process.dial_info["tls"]["key"] not in repr(process.connection.tls)
        await host.close()

    run(scenario())


@pytest.mark.parametrize(
    ("scheme", "tls", "code"),
    [
        ("grpcs", '[tls]\nca = "ca.pem"', "plugin.tls_refused"),  # the certificate is of `plugin`
        ("grpcs", '[tls]\nserver_name = "plugin"', "plugin.tls_refused"),  # of an unknown authority
        ("grpcs", MUTUAL.replace("worker", "stranger"), "plugin.unreachable"),  # it hangs up
        ("grpc", "", "plugin.unreachable"),
        ("grpcs", '[tls]\nca = "nowhere.pem"', "plugin.tls_file"),
    ],
)
def test_each_way_in_which_tls_fails_is_told(kit, run, elsewhere, scheme, tls, code):
    elsewhere.start_tls()
    stranger = Authority(elsewhere.folder / "stranger")
    for file in stranger.sign("stranger"):
        file.rename(elsewhere.folder / file.name)
    assert run(refused(host_of(kit, elsewhere.registry(scheme, tls)))) == code


def test_nobody_there_is_told_with_the_address(kit, run, elsewhere):
    elsewhere.port = 1
    assert run(refused(host_of(kit, elsewhere.registry()))) == "plugin.unreachable"


def test_a_plugin_that_was_lost_is_told_and_connected_to_again(kit, run, elsewhere):
    elsewhere.start()

    async def scenario():
        host = host_of(kit, elsewhere.registry())
        before = await host.acquire("source")
        elsewhere.process.kill()
        elsewhere.process.wait()
        with pytest.raises(PenstockError) as caught:
            await before.validate(Target("source", "count", {"limit": "1"}))
        assert caught.value.code == "plugin.lost"
        with pytest.raises(PenstockError) as caught:
            await host.acquire("source")
        assert caught.value.code == "plugin.unreachable"
        await asyncio.to_thread(elsewhere.start)
        after = await host.acquire("source")
        assert after is not before
        assert await rows_of(after) == list(range(2500))
        await host.close()

    run(scenario())


def test_a_plugin_that_does_not_answer_is_given_up_at_the_next_start_of_a_task(kit, run, elsewhere):
    """As one behind a line that is cut without a word."""
    elsewhere.start()

    async def scenario():
        host = host_of(kit, elsewhere.registry(), health_s=0.5)
        before = await host.acquire("source")
        elsewhere.process.send_signal(signal.SIGSTOP)
        with pytest.raises(PenstockError) as caught:
            await host.acquire("source")
        assert caught.value.code == "plugin.unreachable"
        assert not before.alive
        elsewhere.process.send_signal(signal.SIGCONT)
        assert (await host.acquire("source")).alive
        await host.close()

    run(scenario())


def test_another_plugin_at_the_address_is_noticed(kit, run, elsewhere):
    elsewhere.start()
    text = MANIFEST.format(address=f"grpc://127.0.0.1:{elsewhere.port}", tls="")
    other = parse_manifest(text.replace('"source", kind', '"other", kind'), elsewhere.folder)

    async def scenario():
        host = host_of(kit, Registry([other]))
        with pytest.raises(PenstockError) as caught:
            await host.acquire("other")
        await host.close()
        return caught.value.code

    assert run(scenario()) == "plugin.describe_mismatch"


@pytest.mark.parametrize(
    ("address", "more", "says"),
    [
        ("http://a:1", "", "not like grpcs://host:9443"),
        ("grpc://a", "", "not like grpcs://host:9443"),
        ("grpc://a:0", "", "not like grpcs://host:9443"),
        ("grpc://a:70000", "", "not like grpcs://host:9443"),
        ("grpc://a:1/../b", "", "not like grpcs://host:9443"),
        ("grpc://a:1", '[tls]\nca = "c"', "begins with grpcs://"),
        ("grpcs://a:1", '[tls]\nkey = "c"', "together"),
        ("grpcs://a:1", '[tls]\ncaa = "c"', "did you mean 'ca'"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(tmp_path, address, more, says):
    with pytest.raises(ConfigError, match=r"plugin\.bad_manifest") as caught:
        parse_manifest(MANIFEST.format(address=address, tls=more), tmp_path)
    assert says in str(caught.value)


@pytest.mark.parametrize("lines", ['command = ["x"]', ""])
def test_a_manifest_says_where_a_plugin_runs_or_what_starts_it(tmp_path, lines):
    text = MANIFEST.format(address="grpc://a:1", tls="").replace("connector", f"{lines}\nconnector")
    if lines:
        with pytest.raises(ConfigError, match="exclude each other"):
            parse_manifest(text, tmp_path)
    else:
        manifest = parse_manifest(text, tmp_path)
        assert (manifest.remote.address, manifest.remote.tls) == ("a:1", None)
