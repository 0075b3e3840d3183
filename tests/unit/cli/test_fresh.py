"""`--fresh`: what it forgets, and what it says of rows that stay at the sink."""

import argparse

from penstock.cli.pipeline_paths import open_state_dir


def test_a_fresh_start_says_that_the_sink_keeps_its_rows(tmp_path, capsys):
    arguments = argparse.Namespace(state=tmp_path / "state", pipeline=tmp_path / "p.yaml")
    open_state_dir(arguments, "run", fresh=True)
    assert not capsys.readouterr().err, "nothing was read before"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.db").touch()
    open_state_dir(arguments, "run", fresh=False)
    assert not capsys.readouterr().err
    open_state_dir(arguments, "run", fresh=True)
    assert "rows that are read again are there twice" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
