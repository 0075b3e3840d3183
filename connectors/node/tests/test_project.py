"""The project in Node, its template and its README: everything that is shown runs."""

import base64
import json
import re
import shutil

import pyarrow as pa
import pytest

from penstock.cli import plugin_new
from support.checkout import ROOT
from support.conformance import run_kit
from support.foreign import ForeignBed, run_tool, use_this_node
from support.json_lines import all_numbers, json_task

FOLDER = ROOT / "connectors/node"
VECTORS = ROOT / "proto/vectors"


def test_its_own_test_passes(plugin):
    """`npm test`"""
    assert "pass 1" in run_tool("npm", "test", cwd=plugin)


def test_the_vectors_are_read_without_loss(plugin):
    printed = run_tool("node", FOLDER / "tests/vectors.mjs", VECTORS, cwd=plugin)
    partitions = len(json.loads((VECTORS / "offsets.json").read_text()))
    assert f"{len(list(VECTORS.glob('*.jsonl')))} batches and {partitions} partitions" in printed


def test_a_vector_that_lost_a_digit_goes_red(plugin, tmp_path):
    """The twin: an offset whose last digit a double would change."""
    shutil.copytree(VECTORS, tmp_path / "vectors")
    integers = tmp_path / "vectors/integers.jsonl"
    integers.write_text(integers.read_text().replace("9007199254740993", "9007199254740992", 1))
    with pytest.raises(AssertionError, match="9007199254740992"):
        run_tool("node", FOLDER / "tests/vectors.mjs", tmp_path / "vectors", cwd=plugin)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A new project, named my-plugin."""
    folder = tmp_path_factory.mktemp("made") / "my-plugin"
    plugin_new.create_project("node", "my-plugin", folder)
    run_tool("npm", "ci", "--ignore-scripts", "--silent", cwd=folder)
    return folder


def test_the_template_makes_a_project_that_tests_runs_and_conforms(made):
    assert "pass 1" in run_tool("npm", "test", cwd=made)
    assert 'name = "my-plugin"' in (made / "plugin.toml").read_text()
    with (
        ForeignBed(["node", made / "connector.js"]) as bed,
        json_task(bed, "my-plugin", {"limit": "100"}) as task,
    ):
        assert all_numbers(task) == list(range(100))
    use_this_node(made)
    told = run_kit(str(made))
    assert told["conforms"], [one for one in told["results"] if one["result"] == "fail"]


def test_the_schema_is_the_one_that_the_readme_makes():
    snippet = re.search(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert snippet is not None
    said = []
    exec(snippet[1], {"print": said.append})
    assert said == [(FOLDER / "schema.base64").read_text().strip()]
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said[0])))
    assert schema.names == ["number", "text"]


def test_the_readme_shows_the_connector_as_it_is():
    code = (FOLDER / "connector.js").read_text()
    shown = re.findall(r"```javascript\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert shown
    for snippet in shown:
        for part in snippet.split("// …\n"):
            assert part.strip() in code, part
