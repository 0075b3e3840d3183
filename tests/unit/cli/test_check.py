"""`penstock check`: everything that is wrong with a file, without Spark."""

import os
import subprocess
import sys

import pytest

from penstock.cli.__main__ import main
from support.processes import PLAIN, TESTS

GOOD = """
name: good
source: {connector.class: file-source, file: in.txt, tail: false}
transforms: [{name: k, type: Filter, condition: "line like 'a%'"}]
sink: {connector.class: file-sink, file: out.txt}
"""

WRONG = """
source: {connector.class: file-source, fille: x, tail: nope}
transforms: [{name: k, type: Filtr, condition: "a > 1"}]
sink: {connector.class: file-sink, fil: y}
"""


@pytest.fixture
def check(tmp_path, capsys):
    def run(text, *options):
        file = tmp_path / "p.yaml"
        file.write_text(text)
        code = main(["check", str(file), *options])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_a_good_file_passes_although_its_input_is_not_there(check):
    code, out, err = check(GOOD)
    assert (code, err) == (0, "")
    assert "no error in its configuration" in out


def test_all_errors_of_a_file_come_at_once_each_with_file_key_and_fix(check):
    code, _, err = check(WRONG)
    assert code == 2
    for key in ("source.fille", "source.tail", "transforms.k.type", "sink.fil"):
        assert f"at:  {key}" in err
    assert err.count("p.yaml: ") == err.count("error: ")
    assert "Did you mean `Filter`?" in err


def test_a_key_of_the_pipeline_in_its_source_is_told_where_it_stands(check):
    code, _, err = check(GOOD.replace("tail: false", "until.caught.up: true"))
    assert code == 2
    assert "`until.caught.up` is a key of the pipeline: write it beside `source`" in err


def test_a_password_as_it_is_has_a_warning_and_the_file_passes(check):
    sink = "sink: {connector.class: jdbc-sink, connection.url: 'jdbc:postgresql://h/d',"
    text = GOOD.replace(
        "sink: {connector.class: file-sink, file: out.txt}",
        f"{sink} connection.user: me, connection.password: hunter2}}",
    )
    code, out, err = check(text)
    assert (code, "hunter2" in out + err) == (0, False)
    assert "config.plain_secret" in err
    assert "p.yaml: `sink.connection.password` has its secret as plain text" in err
    assert "config.plain_secret" not in check(text.replace("hunter2", "${env:DB}"))[2]


def test_systems_are_tried_on_demand(check, tmp_path):
    code, out, err = check(GOOD, "--connect")
    assert code == 1
    assert "source, outside: failed" in out
    assert "[file.missing]" in err
    (tmp_path / "in.txt").write_text("a\n")
    code, out, _ = check(GOOD, "--connect")  # the paths are relative to the file
    assert (code, "failed" in out) == (0, False)


def test_a_connector_of_kafka_connect_is_checked_too(check):
    text = "connector.class: FileStreamSink\nfile: out.txt\ntopics: a\nname: sink\n"
    assert check(text)[0] == 0
    code, _, err = check(text.replace("topics: a\n", ""))
    assert (code, "topics" in err) == (2, True)


PEOPLE = """
name: people
source: {connector.class: file-source, file: in.csv, format: csv, tail: false, types: "joined:date",
         invalid.rows: dead-letter}
transforms: [{name: keep, type: Cast, spec: "id:string"}]
sink: {connector.class: file-sink, file: out.csv, format: csv}
errors.tolerance: all
"""


def test_rows_of_the_source_are_shown_behind_the_transforms_and_those_left_out_are_told(tmp_path):
    (tmp_path / "p.yaml").write_text(PEOPLE)
    (tmp_path / "in.csv").write_text("id,joined\n1,soon\n2\n3,2024-01-03\n4,2024-01-04\n")
    done = subprocess.run(
        [sys.executable, "-m", PLAIN, "check", str(tmp_path / "p.yaml"), "--rows", "2"],
        env={**os.environ, "PYTHONPATH": TESTS}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no error in its configuration" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["3", "2024-01-03"] in rows
    assert ["4", "2024-01-04"] in rows
    assert "left out: 2 rows that the source could not read" in done.stderr
    assert "in.csv, line 2" in done.stderr
    assert not (tmp_path / "out.csv").exists(), "nothing is written"


def test_rows_are_not_shown_of_a_file_with_errors(check):
    code, out, err = check(WRONG, "--rows", "2")
    assert (code, out) == (2, "")
    assert "error: " in err


def test_rows_of_files_in_several_folders_are_refused(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.yaml").write_text(GOOD)
    files = [str(tmp_path / name / "p.yaml") for name in ("a", "b")]
    assert main(["check", *files, "--rows", "2"]) == 2
    assert "[check.rows]" in capsys.readouterr().err
    assert main(["check", files[0], "--rows", "1001"]) == 2
    assert "[check.rows]" in capsys.readouterr().err


def test_it_starts_without_what_takes_long_to_load():
    code = "import sys, penstock.cli.check; print({'pyspark', 'pandas'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
