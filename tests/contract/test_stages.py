"""The test command: every test is in a stage, and a red one does not hide what comes after it."""

from pathlib import Path

import stages
from stages import Outcome, Stage
from support.order import HEAVY, LONG, next_file

ROOT = Path(__file__).parents[2]


def test_every_test_is_in_one_ordinary_stage():
    folders = [
        Path(argument)
        for stage in stages.STAGES
        if "not timed and not on_demand" in stage.arguments
        for argument in stage.arguments
        if (ROOT / argument).is_dir()
    ]
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "connectors").rglob("test_*.py")]
    for file in files:
        relative = file.relative_to(ROOT)
        if "node_modules" in relative.parts or "bench" in relative.parts:
            continue
        assert sum(relative.is_relative_to(folder) for folder in folders) == 1, relative


def test_a_red_stage_is_named_and_the_next_ones_run(tmp_path, monkeypatch, capfd):
    (tmp_path / "test_red.py").write_text("def test_red():\n    assert False\n")
    (tmp_path / "test_green.py").write_text("def test_green():\n    pass\n")
    green, red = (
        Stage(name, ("-c", "/dev/null", str(tmp_path / f"test_{name}.py")), lanes=0)
        for name in ("green", "red")
    )
    monkeypatch.setattr(stages, "STAGES", (red, green))
    monkeypatch.setattr(stages, "BESIDE", {"static": ("bash", "-c", "echo looked; exit 1")})
    assert stages.main(["-q", "-p", "no:randomly"]) == 1
    *_, one, two, beside, total, named = capfd.readouterr().out.splitlines()
    assert one.split()[:2] == ["red", "1"]
    assert one.endswith("RED")
    assert two.split()[:2] == ["green", "1"]
    assert beside.split()[0] == "static"
    assert beside.endswith("RED")
    assert total.split()[:2] == ["all", "2"]
    assert named == "red: test_red::test_red"
    monkeypatch.setattr(stages, "FAST", (green,))
    monkeypatch.setattr(stages, "BESIDE", {})
    assert stages.main(["fast", "-q"]) == 0


def test_the_table_has_the_sums_of_the_stages():
    outcomes = [
        Outcome("a", 3, passed=True, tests=2, jvms=1),
        Outcome("b", 5, passed=True, tests=3, jvms=4),
    ]
    assert stages.table(outcomes).splitlines()[-1].split() == ["all", "5", "8", "5"]


def test_the_table_has_the_folders_of_a_stage():
    outcome = Outcome("a", 3, passed=True, tests=5, jvms=1, areas={"x": (2, 4.4), "y": (3, 1.0)})
    _, _, _, *areas, _ = stages.table([outcome]).splitlines()
    assert [line.split()[:3] for line in areas] == [["x", "2", "4"], ["y", "3", "1"]]


def test_at_most_two_files_that_start_clusters_run_at_the_same_time():
    one, two, three = (f"{HEAVY[0]}test_{n}.py" for n in range(3))
    light = "tests/unit/test_a.py"
    assert next_file([light, one], []) == one
    assert next_file([light, two], [one, light]) == two
    assert next_file([three, light], [one, two]) == light
    assert next_file([three], [one, two]) == three, "only those are left"
    assert next_file([light], []) == light


def test_options_may_leave_a_stage_without_tests(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    stage = Stage("one", ("-c", "/dev/null", str(tmp_path)), lanes=0)
    assert stages.run_stage(stage, ["-q", "-k", "nothing"], tmp_path).passed
    missing = Stage("missing", ("-c", "/dev/null", "-q", str(tmp_path), "-k", "nothing"), lanes=0)
    assert not stages.run_stage(missing, [], tmp_path).passed


def test_files_that_begin_first_are_there():
    assert [name for name in LONG if not (ROOT / name).is_file()] == []
