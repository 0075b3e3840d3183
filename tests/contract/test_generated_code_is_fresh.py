"""What is committed in services/penstock/api is what proto/ generates, byte by byte."""

from pathlib import Path

from support.checkout import GENERATED, ROOT, run


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_generated_code_is_fresh(tmp_path):
    done = run("bash", ROOT / "proto/generate.sh", tmp_path)
    assert done.returncode == 0, done.stdout
    fresh, committed = contents(tmp_path / "penstock/api"), contents(GENERATED)
    assert len(fresh) > 20
    hint = "run `bash proto/generate.sh` and commit what it writes"
    assert sorted(fresh) == sorted(committed), hint
    assert [name for name in fresh if fresh[name] != committed[name]] == [], hint
