"""The process of a plugin."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock_connector import ConnectorError, Source
from penstock_connector._connectors import Connectors
from support.certificates import Authority

DEADLINE = 60
NONCE = (("penstock-credential", "a-nonce"),)
POWERLESS = (
    ()
    if os.geteuid()
    else ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
)
"""Root may look into everything: without its capabilities it is a user like others."""
EXAMPLE = Path(__file__).parent.parent / "examples" / "counter.py"


def _describe(address, metadata=NONCE):
    with grpc.insecure_channel(address) as channel:
        stub = PluginServiceStub(channel)
        return stub.Describe(pb.DescribeRequest(), metadata=metadata, timeout=DEADLINE)


def test_the_handshake_line_leads_to_the_connectors(launch, tmp_path):
    _, line = launch()
    core, version, network, path, transport, certificate = line.split("|")
    assert (core, version, network, transport, certificate) == ("1", "1", "unix", "grpc", "")
    assert Path(path).parent == tmp_path
    answer = _describe(f"unix:{path}")
    (spec,) = answer.connectors
    assert (answer.name, answer.sdk.split("/")[0]) == ("counter", "penstock-sdk-python")
    assert (spec.name, spec.kind, spec.title) == (
        "counter",
        pb.KIND_SOURCE,
        "Counts from zero to a limit.",
    )
    assert [key.name for key in spec.config_keys] == ["limit", "batch.rows"]
    assert (spec.source.bounded, spec.source.replayable) == (True, True)


def test_without_the_cookie_it_says_how_to_run_and_exits_with_1(launch):
    process, _ = launch(PENSTOCK_PLUGIN_MAGIC_COOKIE=None, first_line=False)
    output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (1, "")
    assert "counter (source)" in errors
    assert "--listen 127.0.0.1:9000" in errors


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"PLUGIN_PROTOCOL_VERSIONS": "2,3"}, "plugin.protocol_version"),
        ({"PENSTOCK_INSTANCE_NONCE": None}, "plugin.no_credential"),
    ],
)
def test_a_host_it_cannot_serve_is_told_why(launch, environment, code):
    process, _ = launch(first_line=False, **environment)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert code in errors


def test_the_handshake_goes_to_the_file_when_there_is_one(launch, tmp_path):
    file = tmp_path / "handshake"
    process, _ = launch(PENSTOCK_HANDSHAKE_FILE=str(file), first_line=False)
    process.stdin.close()
    process.stdin = None
    output, errors = process.communicate(timeout=DEADLINE)
    assert (output, process.returncode) == ("", 0)
    assert json.loads(errors)["@message"] == "the host closed stdin: ending"
    assert file.read_text().startswith("1|1|unix|")


def test_the_end_of_stdin_ends_the_process(launch):
    process, _ = launch()
    process.stdin.close()
    assert process.wait(DEADLINE) == 0


def test_a_termination_signal_ends_the_process_and_ctrl_c_does_not(launch):
    process, line = launch()
    process.send_signal(signal.SIGINT)
    assert _describe(f"unix:{line.split('|')[3]}").name == "counter"
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0


def test_shutdown_is_answered_and_ends_the_process(launch):
    process, line = launch()
    with grpc.insecure_channel(f"unix:{line.split('|')[3]}") as channel:
        PluginServiceStub(channel).Shutdown(pb.ShutdownRequest(), metadata=NONCE, timeout=DEADLINE)
    assert process.wait(DEADLINE) == 0


@pytest.mark.parametrize("metadata", [(), (("penstock-credential", "guessed"),)])
def test_calls_without_the_credential_are_refused_but_for_health(launch, metadata):
    _, line = launch()
    address = f"unix:{line.split('|')[3]}"
    with pytest.raises(grpc.RpcError) as caught:
        _describe(address, metadata)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(service="plugin"), timeout=DEADLINE)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def seen_by_a_sibling(pid):
    """What another process of the same user, without more rights, reads of a plugin's variables."""
    command = [*POWERLESS, "cat", f"/proc/{pid}/environ"]
    read = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    return read.stderr.rpartition(": ")[2].strip() if read.returncode else read.stdout


def test_a_sibling_sees_neither_the_credential_nor_anything_else(launch):
    """Its twin asks to be seen. Even then, the credential is gone, for its children too."""
    process, line = launch(through=POWERLESS)
    assert seen_by_a_sibling(process.pid) == "Permission denied"
    assert _describe(f"unix:{line.split('|')[3]}").name == "counter"
    twin, _ = launch(through=POWERLESS, PENSTOCK_INSPECTABLE="1")
    seen = seen_by_a_sibling(twin.pid)
    assert "PENSTOCK_INSTANCE_NONCE=*******\0" in seen
    assert "a-nonce" not in seen


def test_a_program_that_erases_nothing_is_seen(tmp_path):
    """The twin: what the test above looks for is there before."""
    command = [*POWERLESS, sys.executable, "-c", "print(flush=True); input()"]
    environment = {"PENSTOCK_INSTANCE_NONCE": "a-nonce"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert "PENSTOCK_INSTANCE_NONCE=a-nonce\0" in seen_by_a_sibling(process.pid)
        process.stdin.close()


def test_an_erased_variable_is_not_passed_on(tmp_path):
    program = (
        "import os, subprocess; from penstock_connector._hiding import erase_variable; "
        "erase_variable('A'); erase_variable('NEVER_SET'); "
        "print(os.environ.get('A'), subprocess.check_output(['env']).decode())"
    )
    environment = {"A": "a-secret", "B": "b", "PATH": os.environ["PATH"]}
    output = subprocess.check_output(
        [sys.executable, "-c", program], env=environment, text=True, timeout=DEADLINE
    )
    assert output.startswith("None ")
    assert "B=b" in output
    assert "A=" not in output
    assert "a-secret" not in output


def test_listen_serves_without_a_host_and_without_a_credential(launch):
    process, line = launch(EXAMPLE, "--listen", "127.0.0.1:0", PENSTOCK_PLUGIN_MAGIC_COOKIE=None)
    assert line.startswith("counter listens on 127.0.0.1:")
    assert _describe(line.rpartition(" ")[2], ()).name == "counter"
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 0


def test_listen_serves_over_tls_to_those_with_a_certificate(launch, tmp_path):
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("plugin")
    options = ("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", authority.ca)
    listening = ("--listen", "127.0.0.1:0", *map(str, options))
    _, line = launch(EXAMPLE, *listening, PENSTOCK_PLUGIN_MAGIC_COOKIE=None)
    address = line.rpartition(" ")[2]
    ours = [file.read_bytes() for file in reversed(authority.sign("worker"))]
    name = [("grpc.ssl_target_name_override", "plugin")]
    root = authority.ca.read_bytes()
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(root, *ours), name) as channel:
        stub = PluginServiceStub(channel)
        assert stub.Describe(pb.DescribeRequest(), timeout=DEADLINE).name == "counter"
    nobody = grpc.ssl_channel_credentials(root)
    with grpc.secure_channel(address, nobody, name) as channel, pytest.raises(grpc.RpcError):
        PluginServiceStub(channel).Describe(pb.DescribeRequest(), timeout=DEADLINE)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--tls-key", "k"), "plugin.tls_options"),
        (("--tls-client-ca", "c"), "plugin.tls_options"),
        (("--tls-key", "/no/k", "--tls-certificate", "/no/c"), "plugin.tls_file"),
    ],
)
def test_tls_that_cannot_be_served_is_told(launch, options, code):
    listening = ("--listen", "127.0.0.1:0", *options)
    process, _ = launch(EXAMPLE, *listening, first_line=False, PENSTOCK_PLUGIN_MAGIC_COOKIE=None)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert code in errors


def test_a_port_that_is_taken_is_told(launch):
    _, line = launch(EXAMPLE, "--listen", "127.0.0.1:0", PENSTOCK_PLUGIN_MAGIC_COOKIE=None)
    address = line.rpartition(" ")[2]
    process, _ = launch(
        EXAMPLE, "--listen", address, first_line=False, PENSTOCK_PLUGIN_MAGIC_COOKIE=None
    )
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "plugin.cannot_listen" in errors


def test_a_connector_that_hangs_does_not_keep_the_process(launch, tmp_path):
    plugin = tmp_path / "hangs.py"
    plugin.write_text(
        "import threading\n"
        "from penstock_connector import Source, _serve, serve\n"
        "_serve._EXIT_WITHIN = 0.2\n"
        "class Hangs(Source):\n"
        "    name = 'hangs'\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "serve(Hangs)\n"
    )
    process, _ = launch(plugin)
    process.stdin.close()
    assert process.wait(DEADLINE) == 0


def test_importing_the_sdk_is_quiet_and_needs_no_host():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import penstock_connector.testing"],
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_names_are_unique_and_unknown_ones_have_a_hint():
    class One(Source):
        name, aliases = "one", ("uno",)

    class Other(Source):
        name = "uno"

    class Unnamed(Source):
        pass

    with pytest.raises(ConnectorError, match="both 'uno'"):
        Connectors([One, Other])
    with pytest.raises(ConnectorError, match="has no name"):
        Connectors([Unnamed])
    assert Connectors([One]).find("uno", Source) is One
    with pytest.raises(ConnectorError) as caught:
        Connectors([One]).find("onee", Source)
    assert "Did you mean 'one'?" in caught.value.fix
