"""A transform of a plugin in a pipeline: found by its manifest, run where the rows are, killed."""

import json
from contextlib import contextmanager

from support.standalone import Standalone

PLUGIN = '''
"""Writes lines large; ends by itself, once, in the middle of a batch."""

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Transform, Transformed, key, serve


@dataclass(frozen=True)
class ShoutConfig:
    """Keys."""

    end: str = key(doc="What ends every line.", required=True)
    once: str = key("", doc="A file that is made when the process ends by itself.")


class Shout(Transform[ShoutConfig]):
    """Writes lines large, and leaves out what is empty."""

    name = "shout"
    aliases = ("com.acme.Shout",)

    def apply(self, rows):
        if self.config.once and not Path(self.config.once).exists():
            Path(self.config.once).touch()
            os._exit(3)
        lines = rows["line"]
        kept = pc.indices_nonzero(pc.utf8_length(lines)).to_pylist()
        gone = sorted(set(range(rows.num_rows)) - set(kept))
        loud = pc.binary_join_element_wise(pc.utf8_upper(lines), self.config.end, "")
        made = rows.set_column(rows.schema.get_field_index("line"), "line", loud)
        return Transformed(made.take(pa.array(kept, pa.int64())), None, gone)


serve(Shout)
'''

MANIFEST = """
name = "acme"
version = "1.0.0"
command = ["{python}", "shout.py"]
connector = [{ name = "shout", kind = "transform", aliases = ["com.acme.Shout"] }]
"""


@contextmanager
def standalone(folder, **keys):
    """The command with a source whose rows the plugin changes, and a sink; `keys` are the
    transform's.
    """
    plugin = folder / "plugins" / "acme"
    plugin.mkdir(parents=True)
    (plugin / "shout.py").write_text(PLUGIN, encoding="utf-8")
    manifest = MANIFEST.replace("shout.py", str(plugin / "shout.py"))
    (plugin / "plugin.toml").write_text(manifest, encoding="utf-8")
    (folder / "in.txt").write_text("a\n\nb\nc\n", encoding="utf-8")
    node = Standalone(
        folder,
        read={
            "connector.class": "file-source", "file": folder / "in.txt", "topic": "lines",
            "transforms": "t,k", **{f"transforms.t.{key}": value for key, value in keys.items()},
            "transforms.k.type": "Filter",
            "transforms.k.condition": "line <> 'B!' AND hash(line) <> 1",
        },
        write={"connector.class": "file-sink", "file": folder / "out.txt", "topics": "lines"},
    )  # fmt: skip
    worker = folder / "worker.json"
    settings = json.loads(worker.read_text(encoding="utf-8"))
    settings["plugin.path"] = str(folder / "plugins")
    worker.write_text(json.dumps(settings), encoding="utf-8")
    with node:
        yield node


def test_a_process_that_ends_in_mid_batch_loses_and_repeats_no_row(tmp_path):
    out, once = tmp_path / "out.txt", tmp_path / "once"
    with standalone(tmp_path, type="com.acme.Shout", end="!", once=once) as node:
        node.wait_for(lambda: out.exists() and out.read_text().count("\n") >= 2, "two lines")
        assert once.exists()
        with (tmp_path / "in.txt").open("a") as file:
            file.write("d\n")
        node.wait_for(lambda: "D!" in out.read_text(), "another line")
    assert out.read_text() == "A!\nC!\nD!\n"


def test_a_configuration_that_the_plugin_refuses_is_told_with_its_place(tmp_path):
    with standalone(tmp_path, type="shout", edn="!") as node:
        node.wait_for(lambda: "transforms.t.edn" in node.process.output, "the key at fault")
        assert "'end'" in node.process.output
    assert not (tmp_path / "out.txt").exists()
