"""The worked examples, and the README that shows them."""

import json
from pathlib import Path

import pytest

from penstock_connector.testing import plan, sink_task, source_task, validate

ROOT = Path(__file__).parent.parent


def test_the_counter_counts_to_its_limit(counter):
    with source_task(counter, {"limit": "2500"}) as task:
        assert [row["number"] for row in task.all_rows()] == list(range(2500))


def test_the_counter_needs_a_limit(counter):
    assert validate(counter, {}) == ["config.missing"]
    assert [partition.key for partition in plan(counter, {"limit": "1"})] == [{"source": "counter"}]


def test_the_sink_appends_lines(jsonl, tmp_path):
    path = tmp_path / "out.jsonl"
    for number in (1, 2):
        with sink_task(jsonl, {"path": str(path)}) as task:
            assert task.write([{"id": number}], dataset="orders").txn_id
            task.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"dataset": "orders", "id": 1}, {"dataset": "orders", "id": 2}]


@pytest.mark.parametrize("name", ["counter", "jsonl"])
def test_the_readme_shows_the_examples_as_they_are(name):
    code = (ROOT / "examples" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in (ROOT / "README.md").read_text()


def test_the_readme_of_transforms_shows_its_example_as_it_is():
    code = (ROOT / "examples" / "mask.py").read_text()
    assert f"```python\n{code}```" in (ROOT / "examples" / "README.md").read_text()


def test_the_test_of_a_transform_in_its_readme_runs(mask):
    readme = (ROOT / "examples" / "README.md").read_text()
    code = readme.split("<!-- tested -->\n```python\n")[1].split("```")[0]
    scope = {"Mask": mask}
    lines = [line for line in code.splitlines() if not line.startswith("from my_plugin")]
    exec("\n".join(lines), scope)
    scope["test_a_column_is_hidden"]()


def test_the_test_in_the_readme_runs(counter, jsonl, tmp_path):
    readme = (ROOT / "README.md").read_text()
    code = readme.split("<!-- tested -->\n```python\n")[1].split("```")[0]
    scope = {}
    exec(
        "\n".join(line for line in code.splitlines() if not line.startswith("from my_plugin")),
        scope | {"Counter": counter, "JsonLinesSink": jsonl, "__name__": "readme"},
        scope,
    )
    scope = {"Counter": counter, "JsonLinesSink": jsonl} | scope
    test = scope["test_a_counter_goes_on_after_a_commit"]
    test.__globals__.update(scope)
    test()
