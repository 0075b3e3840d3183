"""The two commands of the README that a new user types, as written there."""

import os
import subprocess

from deltalake import DeltaTable

from support.checkout import ROOT

LIMIT = 270
"""Seconds for the quick start after installation, on a busy machine."""


def test_the_quick_start_moves_real_data_and_shows_new_rows_arrive(tmp_path):
    """`bash deploy/local/quickstart.sh`"""
    done = subprocess.run(
        ["bash", "deploy/local/quickstart.sh", "--dir", str(tmp_path / "first")],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "259 rows are in both tables" in done.stdout
    assert "day 3: in the Delta table after" in done.stdout
    assert "Try next, after `. deploy/local/setup.sh`" in done.stdout
    delta = DeltaTable(str(tmp_path / "first" / "delta" / "rainy_days")).to_pyarrow_table()
    assert delta.num_rows == 262
    assert set(delta["city"].to_pylist()) == {"Seattle"}
    topic = DeltaTable(str(tmp_path / "first" / "state" / "topics" / "rainy_days"))
    assert topic.to_pyarrow_dataset().count_rows() == 262
