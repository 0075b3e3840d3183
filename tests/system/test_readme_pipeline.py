"""The first pipeline of the README, as it stands there."""

import os
import re
import subprocess
import sys

import pytest

from support.checkout import ROOT


@pytest.mark.timeout(600)
def test_the_first_pipeline_of_the_readme_runs_as_written(tmp_path):
    """`penstock check pipeline.yaml`, `penstock test pipeline.yaml`,
    `penstock run pipeline.yaml`.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pipeline = re.search(r"```yaml\n(name: errors-only.*?)```", readme, re.DOTALL)
    assert pipeline is not None
    (tmp_path / "pipeline.yaml").write_text(pipeline.group(1), encoding="utf-8")
    (tmp_path / "app.log").write_text("INFO a\nERROR b\nINFO c\nERROR d\n", encoding="utf-8")

    def penstock(verb: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", verb, f"{tmp_path.name}/pipeline.yaml"],
            cwd=tmp_path.parent,  # paths in the file are relative to it
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    assert "no error in its configuration" in penstock("check").stdout
    assert penstock("test").stdout == f"passed  {tmp_path.name}/pipeline.yaml: only errors pass\n"
    assert "4 rows read, 2 written" in penstock("run").stderr
    with (tmp_path / "app.log").open("a", encoding="utf-8") as log:
        log.write("ERROR e\n")
    assert "1 row read, 1 written" in penstock("run").stderr
    assert (tmp_path / "errors.log").read_text(encoding="utf-8") == "ERROR b\nERROR d\nERROR e\n"
