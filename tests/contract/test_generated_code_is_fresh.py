"""The committed code for Python and Go is what proto/ generates, byte by byte."""

from pathlib import Path

from support.checkout import GENERATED, ROOT, run


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_generated_code_is_fresh(tmp_path):
    done = run("bash", ROOT / "proto/generate.sh", tmp_path)
    assert done.returncode == 0, done.stdout
    same(contents(tmp_path / "penstock/api"), contents(GENERATED), least=20)
    same(contents(tmp_path / "api"), contents(ROOT / "connectors/go/api"), least=12)


def same(fresh: dict[str, bytes], committed: dict[str, bytes], least: int) -> None:
    assert len(fresh) > least
    hint = "run `bash proto/generate.sh` and commit what it writes"
    assert sorted(fresh) == sorted(committed), hint
    assert [name for name in fresh if fresh[name] != committed[name]] == [], hint
