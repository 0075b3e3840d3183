"""Paths of a file: relative to it in `penstock run`; a cluster takes those that mean one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.processes import free_ports

PIPELINE = """\
name: copied
source: {{connector.class: file-source, file: {source}}}
sink: {{connector.class: file-sink, file: {sink}}}
"""


@pytest.mark.timeout(300)
def test_a_pipeline_with_relative_paths_is_refused_and_its_fix_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "in.txt").write_text("a\n")
    file = data / "copied.yaml"
    port = free_ports(1)[0]
    server = ("--server", f"http://127.0.0.1:{port}")
    with Cluster(tmp_path / "cluster", plain=True) as cluster:
        cluster.start("gateway", "gateway", listeners=f"http://127.0.0.1:{port}")
        allowed = {
            "config.providers": "env",
            "config.providers.env.param.allowlist.pattern": "DATA_DIR",
        }
        cluster.start("worker", "w1", env={"DATA_DIR": str(data)}, **SPARK, **allowed)
        cluster.until(lambda: "w1" in cluster.connected(), READY, "the worker to take part")

        def said(*words: str) -> tuple[int, str]:
            code = main([*words, *server])
            told = capsys.readouterr()
            return code, told.err + told.out

        file.write_text(PIPELINE.format(source="in.txt", sink="out.txt"))
        for verb in (("connector", "create"), ("plan",), ("apply",)):
            code, told = said(*verb, str(file))
            assert (code, told.count("[config.relative_path]")) == (2, 2), told
            assert "`source.file` is 'in.txt'" in told
            assert "`sink.file` is 'out.txt'" in told
        assert cluster.status("copied") is None

        # for `penstock run` it is right
        assert main(["check", str(file)]) == 0
        assert "relative_path" not in capsys.readouterr().err

        fix = '"${env:DATA_DIR}/in.txt"'
        assert fix in told
        file.write_text(PIPELINE.format(source=fix, sink=data / "out.txt"))
        code, told = said("apply", str(file))
        assert code == 0, told
        out = data / "out.txt"
        cluster.until(
            lambda: out.exists() and out.read_text() == "a\n",
            READY,
            "the row",
            lambda: cluster.status("copied"),
        )

        flat = data / "flat.properties"
        flat.write_text("name=flat\nconnector.class=FileStreamSource\nfile=in.txt\ntopic=lines\n")
        code, told = said("apply", str(flat))
        assert code == 0, told
        assert "warning: " in told
        assert "flat: `file` is 'in.txt'" in told
        code, told = said("apply", str(flat))  # nothing changes, nothing is said again
        assert (code, "relative_path" in told) == (0, False)
