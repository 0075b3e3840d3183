"""The protocol lints, and a change that breaks whoever uses it goes red."""

import re
import shutil

import pytest
import yaml

from support.checkout import ROOT, run

PLUGIN = "proto/penstock/api/connector/v1/plugin_service.proto"


@pytest.fixture
def repository(tmp_path):
    """A repository of the protocol and its rules alone, with one commit."""
    for name in ("proto", "tests/breaking.sh", "buf.yaml"):
        place = tmp_path / "origin" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, place)
    git(tmp_path / "origin", "init", "-q", "-b", "main")
    commit(tmp_path / "origin")
    return tmp_path / "origin"


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = run("git", *identity, *arguments, cwd=folder)
    assert done.returncode == 0, done.stdout


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a change")


def edit(repository, old, new):
    file = repository / PLUGIN
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def breaking(folder):
    return run("bash", "tests/breaking.sh", cwd=folder)


def test_the_protocol_lints():
    done = run("buf", "lint")
    assert done.returncode == 0, done.stdout


def test_the_rules_have_no_exceptions_but_what_went_before_the_first_release():
    rules = yaml.safe_load((ROOT / "buf.yaml").read_text())
    assert rules["lint"] == {"use": ["STANDARD", "COMMENTS"]}
    exceptions = rules["breaking"].pop("ignore_only")
    assert rules["breaking"] == {"use": ["FILE"]}
    assert not exceptions.keys() & {"SERVICE_NO_DELETE", "PACKAGE_SAME", "RPC_SAME_REQUEST_TYPE"}
    assert exceptions["FILE_NO_DELETE"] == ["proto/penstock/api/connector/v1/host_service.proto"]
    assert "before the first release" in (ROOT / "buf.yaml").read_text(), "and only there"
    assert not [f for f in (ROOT / "proto").rglob("*.proto") if "buf:lint:ignore" in f.read_text()]


def test_the_first_commit_has_nothing_to_break(repository):
    done = breaking(repository)
    assert (done.returncode, "no earlier commit" in done.stdout) == (0, True), done.stdout


def test_a_service_that_is_gone_goes_red_and_a_comment_does_not(repository):
    edit(repository, "service PluginService", "// More words.\nservice PluginService")
    commit(repository)
    done = breaking(repository)
    assert (done.returncode, "compatible with" in done.stdout) == (0, True), done.stdout
    edit(repository, "service PluginService", "service OtherService")
    commit(repository)
    done = breaking(repository)
    assert done.returncode != 0
    assert "PluginService" in done.stdout


def test_a_shallow_clone_looks_one_commit_deeper(repository, tmp_path):
    edit(repository, "service PluginService", "service OtherService")
    commit(repository)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    done = breaking(tmp_path / "clone")
    assert done.returncode != 0, done.stdout
    assert "PluginService" in done.stdout


def test_a_branch_is_compared_with_where_it_left_main(repository):
    git(repository, "checkout", "-q", "-b", "feature")
    edit(repository, "service PluginService", "service OtherService")
    commit(repository)
    commit(repository)
    assert breaking(repository).returncode != 0


WRITES = re.compile(
    r"(Create|Put|Patch|Delete|Set|Request|Rollback|Upload|Claim|Commit|Alter|Reset|Rewind|Drain)"
)
METHOD = re.compile(r"((?:^  //.*\n)+)^  rpc (\w+)\(", re.MULTILINE)


def unsaid(text):
    """The methods that change something and do not tell whether they may be repeated."""
    found = {name: comment for comment, name in METHOD.findall(text) if WRITES.match(name)}
    return [name for name, comment in found.items() if not re.search("dempotent|repeat", comment)]


@pytest.mark.parametrize("room", ["config", "offset", "scheduler", "worker"])
def test_every_method_that_changes_something_tells_whether_it_may_be_repeated(room):
    (file,) = (ROOT / "proto" / "penstock" / "api" / room / "v1").glob("*_service.proto")
    assert unsaid(file.read_text(encoding="utf-8")) == []


def test_a_method_that_does_not_tell_goes_red():
    assert unsaid("  // PutOne puts.\n  rpc PutOne(A) returns (B);\n") == ["PutOne"]
