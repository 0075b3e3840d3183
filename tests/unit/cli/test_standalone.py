"""Which files of `penstock standalone` are whose."""

import pytest

from penstock.cli.standalone import split_files
from penstock.model.errors import ConfigError

PIPELINE = "source: {connector.class: a}\nsink: {connector.class: b}\n"


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return [tmp_path / f"{name}.yaml" for name in texts]

    return write


def test_a_first_file_that_is_no_connector_is_the_workers(files):
    worker, connectors = split_files(
        files(w="state.dir: /x\nconfig: {providers: file}\n", p=PIPELINE)
    )
    assert worker == {"state.dir": "/x", "config.providers": "file"}
    assert [one.name for one in connectors] == ["p"]


def test_files_of_every_form_are_connectors(files):
    body = '{"name": "x", "config": {"connector.class": "a"}, "initial_state": "PAUSED"}'
    worker, connectors = split_files(files(b=body, p=PIPELINE, f="connector.class: a\n"))
    assert not worker
    assert [one.name for one in connectors] == ["x", "p", "f"]
    assert connectors[0].target_state.name == "PAUSED"


def test_a_worker_may_start_without_connectors(files):
    assert split_files(files(w="state.dir: /x")) == ({"state.dir": "/x"}, [])


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ({"w": "a: 1", "c": "b: 2"}, "config.missing"),
        ({"a": PIPELINE, "b": f"name: a\n{PIPELINE}"}, "config.duplicate_name"),
    ],
)
def test_what_cannot_run_is_refused(files, texts, code):
    with pytest.raises(ConfigError) as caught:
        split_files(files(**texts))
    assert caught.value.code == code
