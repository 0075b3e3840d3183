"""What authors of plugins do: make one, test it, build it, serve it, change it while it runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.cli import plugin_new
from penstock.cli.__main__ import main
from penstock.model.errors import ConfigError
from penstock_kit.testing import PenstockProcess
from support.conformance import run_kit
from system.pipelines import ENDED

SOON = 120.0
DESCRIBE = pb.DescribeRequest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project."""
    plugin_new.create_project("python", "acme-orders", tmp_path / "acme-orders")
    return tmp_path / "acme-orders"


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command line that starts no process; returns what it said."""

    def run(*words: str | Path, code: int = 0) -> str:
        assert main([*map(str, words)]) == code
        said = capsys.readouterr()
        return said.out + said.err

    return run


def test_the_first_commands_of_a_new_projects_readme_work(project: Path) -> None:
    """In an environment that has Penstock and nothing else: what they run is installed first."""
    text = (project / "README.md").read_text(encoding="utf-8")
    commands = re.findall("^    ([^#\n]*)", text, re.MULTILINE)
    first = [shlex.split(one) for one in commands if one.startswith("python ")]
    assert first[:2] == [
        ["python", "-m", "pip", "install", "pytest"],
        ["python", "-m", "pytest"],
    ]
    for _, *words in first:
        done = subprocess.run(
            [sys.executable, *words], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_key_is_named_by_the_kit_with_its_file(project: Path) -> None:
    source = project / "acme_orders" / "source.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(
        text.replace(" limit: int", " most: int").replace("config.limit", "config.most")
    )
    only = ("--connector", "acme-orders-source", "--case", "config.valid", "--case", "config.check")
    told = run_kit(str(project), *only)
    why = {one["case"]: one["why"] for one in told["results"] if one["result"] == "fail"}
    assert why.keys() == {"config.valid", "config.check"}
    for text in why.values():
        assert "conformance.toml" in text
        assert "there is no key 'limit'" in text
        assert "SEVERITY_" not in text


def test_a_new_project_conforms_and_builds(project: Path) -> None:
    """P: an afternoon begins with something that works."""
    told = run_kit(str(project))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", str(project.parent), "."], cwd=project, check=True)
    assert (project.parent / "acme_orders-0.1.0-py3-none-any.whl").exists()


def test_a_project_is_listed_and_sealed_and_a_change_of_it_is_told(
    tmp_path: Path, penstock: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`new`, `list`, `seal` and `seal --check` agree with each other."""
    monkeypatch.setenv("COLUMNS", "200")
    project = tmp_path / "acme-orders"
    new = ("plugin", "new", "--language", "python", "acme-orders", "--into", project)
    assert "README.md has the next steps" in penstock(*new)
    assert "plugin.folder_exists" in penstock(*new, code=2)
    listed = penstock("plugin", "list", "--plugins", project)
    assert re.search(r"acme-orders-sink +sink +acme-orders +0\.1\.0 +here$", listed, re.MULTILINE)
    assert "is not sealed" in penstock("plugin", "seal", "--check", project, code=1)
    assert "sealed acme-orders 0.1.0" in penstock("plugin", "seal", project)
    assert "here, sealed" in penstock("plugin", "list", "--plugins", project)
    assert "is what was sealed" in penstock("plugin", "seal", "--check", project)
    (project / "acme_orders" / "sink.py").write_text("")
    told = penstock("plugin", "seal", "--check", project, code=2)
    assert "plugin.seal_broken" in told
    assert "the file acme_orders/sink.py was changed" in told
    (project / "plugin.toml").write_text("broken")
    assert "plugin.bad_manifest" in penstock("plugin", "list", "--plugins", project, code=1)


@pytest.mark.parametrize(
    ("language", "name", "code"),
    [
        ("python", "Acme", "plugin.bad_name"),
        ("python", "../acme", "plugin.bad_name"),
        ("python", "acme--x", "plugin.bad_name"),
        ("python", "a" * 61, "plugin.bad_name"),
    ],
)
def test_what_cannot_be_made_is_told(tmp_path: Path, language: str, name: str, code: str) -> None:
    """Nothing is written then."""
    with pytest.raises(ConfigError) as caught:
        plugin_new.create_project(language, name, tmp_path / "new")
    assert caught.value.code == code
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("language", plugin_new.LANGUAGES)
def test_a_project_has_a_manifest_and_no_word_of_its_template(
    tmp_path: Path, language: str
) -> None:
    """Those of Go and Node are built and tested by their own tests."""
    made = tmp_path / "new"
    files = plugin_new.create_project(language, "acme-orders", made)
    assert 'name = "acme-orders"' in (made / "plugin.toml").read_text()
    assert not any(file.is_symlink() for file in made.rglob("*"))
    for file in files if language == "python" else filter(Path.is_file, made.iterdir()):
        text = f"{file.relative_to(tmp_path)} {file.read_text()}"
        assert not re.search(r"\b(NAME|MODULE|CLASS)\b|\.tmpl", text), file


def test_a_language_without_its_template_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation may have been made without."""
    monkeypatch.setattr(plugin_new, "_CHECKOUT", tmp_path)
    with pytest.raises(ConfigError, match=r"plugin\.no_template"):
        plugin_new.create_project("go", "acme-orders", tmp_path / "new")


@pytest.fixture
def served(project: Path) -> Iterator[tuple[PenstockProcess, str]]:
    """`penstock plugin run`, and where it answers."""
    arguments = ("plugin", "run", project, "--listen", "127.0.0.1:0")
    with PenstockProcess(project.parent / "served", *arguments) as process:
        process.wait_for(lambda: "answers at" in process.output, SOON, "an address")
        found = re.search(r"answers at (127\.0\.0\.1:\d+)", process.output)
        assert found
        yield process, found[1]
    assert not process.leftovers().processes


def test_a_plugin_is_served_with_reflection(served: tuple[PenstockProcess, str]) -> None:
    """As grpcurl asks: which services there are, what they are like, and a call."""
    _, address = served
    with grpc.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(
                file_containing_symbol="penstock.api.connector.v1.SourceService"
            ),
        ]
        names, files = stub.ServerReflectionInfo(iter(asked), timeout=SOON)
        services = {service.name for service in names.list_services_response.service}
        assert "penstock.api.connector.v1.PluginService" in services
        assert files.file_descriptor_response.file_descriptor_proto
        described = PluginServiceStub(channel).Describe(DESCRIBE, timeout=SOON)
        assert [c.name for c in described.connectors] == ["acme-orders-source", "acme-orders-sink"]


def test_an_error_of_a_served_plugin_is_passed_on(served: tuple[PenstockProcess, str]) -> None:
    """With its status and its diagnostic; and a call that is not there stays one."""
    _, address = served
    with grpc.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/penstock.api.connector.v1.PluginService/No")(b"", timeout=SOON)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        validate = channel.unary_unary("/penstock.api.connector.v1.ConnectorService/Plan")
        with pytest.raises(grpc.RpcError) as caught:
            validate(b"", timeout=SOON)
        assert "penstock-diagnostic-bin" in dict(caught.value.trailing_metadata())


def test_serving_ends_with_its_plugin(served: tuple[PenstockProcess, str]) -> None:
    """Shutdown ends the plugin, and the command with it."""
    process, address = served
    with grpc.insecure_channel(address) as channel:
        PluginServiceStub(channel).Shutdown(pb.ShutdownRequest(), timeout=SOON)
    process.wait_for(lambda: process.returncode is not None, SOON, "the end")
    assert process.returncode == 1
    assert "plugin.crashed" in process.output


@pytest.mark.timeout(600)
def test_a_pipeline_runs_anew_when_its_plugin_or_its_file_changes(project: Path) -> None:
    """Offsets stay, a defect is told, and its cure is enough."""
    out, source = project.parent / "out.jsonl", project / "acme_orders" / "source.py"
    good = source.read_text()

    def pipeline(limit: int) -> None:
        ends = {
            "source": {"connector.class": "acme-orders-source", "limit": limit},
            "sink": {"connector.class": "acme-orders-sink", "path": str(out)},
        }
        (project / "pipeline.yaml").write_text(json.dumps(ends))

    def rows() -> list[dict[str, int]]:
        lines = out.read_text().splitlines() if out.exists() else []
        return [{k: v for k, v in json.loads(x).items() if k != "dataset"} for x in lines]

    pipeline(5)
    state = project.parent / "state"
    arguments = ("dev", project / "pipeline.yaml", "--state", state)
    with PenstockProcess(project.parent / "dev", *arguments) as dev:
        first = [{"number": n} for n in range(5)]
        dev.wait_for(lambda: rows() == first, ENDED, "the first rows")
        source.write_text("a defect\n")
        dev.wait_for(lambda: "waiting for a change" in dev.output, SOON, "the defect to be told")
        assert "plugin.exited_early" in dev.output
        assert "SyntaxError" in dev.output
        source.write_text(good.replace("self.next = end", "self.next = ende"))
        dev.wait_for(lambda: "connector.defect" in dev.output, SOON, "the other defect")
        shown = dev.output[dev.output.index("connector.defect") :]
        assert re.search(r"^  trace:$", shown, re.MULTILINE)
        assert re.search(
            r'^ +File ".*/acme_orders/source\.py", line \d+, in read_batch$', shown, re.MULTILINE
        )
        assert re.search(r"^ +self\.next = ende$", shown, re.MULTILINE)
        source.write_text(good.replace('{"number": number}', '{"n": number}'))
        pipeline(10)
        more = [{"n": n} for n in range(5, 10)]
        dev.wait_for(lambda: rows() == [*first, *more], SOON, "rows of the changed source")
        assert dev.stop(SOON) == 0
    assert not dev.leftovers().processes
