"""The folder of a pipeline's state: whose it is, and what happens when its file is moved."""

from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.standalone.settings import claim_state_dir, pipeline_state_dir


@pytest.fixture
def state_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "penstock"


def pipeline(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p.yaml").touch()
    return folder / "p.yaml"


def test_a_pipeline_with_a_name_goes_on_where_it_was_when_its_file_is_moved(tmp_path, state_home):
    old = pipeline(tmp_path / "old")
    folder = pipeline_state_dir(old, "run", "copy / of it")
    claim_state_dir(folder, old)
    new = old.rename(tmp_path / "new.yaml")
    assert pipeline_state_dir(new, "run", "copy / of it") == folder
    claim_state_dir(folder, new)
    assert folder.parent == state_home / "run"


@pytest.mark.parametrize("name", [".", "..", "..."])
def test_a_name_of_dots_is_a_folder_of_its_own(tmp_path, state_home, name):
    assert (
        pipeline_state_dir(pipeline(tmp_path), "run", name).resolve().parent == state_home / "run"
    )


def test_two_files_of_one_name_do_not_share_their_offsets(tmp_path, state_home):
    one, other = pipeline(tmp_path / "one"), pipeline(tmp_path / "other")
    folder = pipeline_state_dir(one, "run", "copy")
    claim_state_dir(folder, one)
    claim_state_dir(folder, one)
    with pytest.raises(ConfigError, match=str(one)) as caught:
        claim_state_dir(folder, other)
    assert caught.value.code == "pipeline.name_taken"
    assert "--state" in caught.value.diagnostic.fix


def test_a_fresh_start_forgets_the_state_of_its_own_pipeline_alone(tmp_path, state_home):
    one, other = pipeline(tmp_path / "one"), pipeline(tmp_path / "other")
    folder = pipeline_state_dir(one, "run", "copy")
    claim_state_dir(folder, one)
    (folder / "offsets").touch()
    with pytest.raises(ConfigError, match=str(one)):
        claim_state_dir(folder, other, fresh=True)
    assert (folder / "offsets").exists()
    claim_state_dir(folder, one, fresh=True)
    assert not (folder / "offsets").exists()
    with pytest.raises(ConfigError, match=str(one)):
        claim_state_dir(folder, other)


def test_a_pipeline_without_a_name_is_its_path(tmp_path, state_home):
    one, other = pipeline(tmp_path / "one"), pipeline(tmp_path / "other")
    assert pipeline_state_dir(one, "run") != pipeline_state_dir(other, "run")
    assert pipeline_state_dir(one, "run") == pipeline_state_dir(one.parent / "." / one.name, "run")
