"""The README's commands and keys are those of the plugin."""

import os
import re
import subprocess

from penstock.api.connector.v1.plugin_service_pb2 import DescribeRequest
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from support.checkout import ROOT
from support.foreign import ForeignBed

README = ROOT / "connectors/rust/README.md"


def test_the_commands_that_build_it_work(plugin, tools, tmp_path):
    """export, mkdir, printf, chmod, PROTOC="$CARGO_TARGET_DIR/protoc" cargo build; mkdir and cp.

    `penstock plugin test` and `penstock run` of it are the other files' here.
    """
    assert (plugin / "penstock-rust").exists()  # the libraries are built
    commands = "".join(re.findall(r"```bash [^\n]*\n(.*?)```", README.read_text(), re.DOTALL))
    kept = [line for line in commands.splitlines() if not line.startswith("penstock ")]
    (tmp_path / "connectors").symlink_to(ROOT / "connectors")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(kept)],
        cwd=tmp_path,
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rust-plugin/plugin.toml").exists()
    assert (tmp_path / "rust-plugin/penstock-rust").exists()


def test_its_keys_are_those_of_the_plugin(plugin):
    with ForeignBed([plugin / "penstock-rust"]) as bed:
        stub = PluginServiceStub(bed.channel)
        told = stub.Describe(DescribeRequest(), metadata=bed.metadata, timeout=60)
    rows = [
        f"| `{key.name}` | {'required' if key.required else f'`{key.default_value}`'} "
        f"| `{one.name}`: {key.documentation} |"
        for one in told.connectors
        for key in one.config_keys
    ]
    text = README.read_text()
    assert [row for row in rows if row not in text] == []
    table = text.partition("## Keys\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == len(rows) + 2
