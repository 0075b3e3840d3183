"""The example of the README, as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from support.processes import PLAIN, TESTS

README = Path(__file__).parents[1] / "README.md"
COMMAND = "penstock run orders.yaml"


def test_orders_of_a_file_are_documents(elasticsearch, topic, tmp_path):
    text = README.read_text(encoding="utf-8")
    assert f"\n{COMMAND}\n" in text
    block = re.search(r"```yaml title=orders\.yaml\n(.*?)```", text, re.DOTALL)[1]
    pipeline = block.replace("http://localhost:9200", elasticsearch.url)
    pipeline = pipeline.replace("topic: orders", f"topic: {topic}")
    (tmp_path / "orders.yaml").write_text(pipeline, encoding="utf-8")
    rows = [{"id": 1, "item": "tea"}, {"id": 2, "item": "cup"}, {"id": 1, "item": "pot"}]
    (tmp_path / "orders.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    own = {**os.environ, "PYTHONPATH": TESTS, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-m", PLAIN, *COMMAND.split()[1:]],
        cwd=tmp_path, env=own, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert elasticsearch.documents(topic) == {
        "1": {"id": 1, "item": "pot"},
        "2": {"id": 2, "item": "cup"},
    }
