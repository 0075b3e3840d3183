"""The maps name every room of connectors."""

import re

import pytest

from support.checkout import ROOT

CONNECTORS = ROOT / "connectors"
ROOMS = sorted(file.parent.name for file in CONNECTORS.glob("*/README.md"))
SINK_GUIDE = "TWO_PHASE_SINK.md"


def rooms_missing(text: str, start: str) -> list[str]:
    """Return the rooms of connectors whose README a text has no link to; `start` begins a link."""
    linked = set(re.findall(rf"\]\({start}(\w+)/README\.md\)", text))
    return [room for room in ROOMS if room not in linked]


@pytest.mark.parametrize(
    ("path", "start"), [("README.md", "connectors/"), ("connectors/README.md", "")]
)
def test_a_map_has_a_link_to_every_room_of_connectors(path, start):
    assert rooms_missing((ROOT / path).read_text(encoding="utf-8"), start) == []


def test_a_room_that_is_left_out_goes_red():
    links = " ".join(f"[x]({room}/README.md)" for room in ROOMS[1:])
    assert rooms_missing(links, "") == ROOMS[:1]


@pytest.mark.parametrize("room", ["node", "rust"])
def test_a_room_without_an_sdk_has_a_link_to_the_guide_to_sinks(room):
    text = (CONNECTORS / room / "README.md").read_text(encoding="utf-8")
    assert f"](../{SINK_GUIDE})" in text
    assert "enforces_reach" in text


def test_the_readme_of_tests_names_the_tools_of_every_language():
    text = (ROOT / "tests/README.md").read_text(encoding="utf-8")
    (stage,) = re.findall(r"^\| `\.\./connectors/\*/tests` \|.*$", text, re.MULTILINE)
    assert {"`go test`", "`npm test`", "`cargo build`"} <= set(re.findall(r"`[^`]+`", stage))
    cached = text.partition("~/.cache/penstock")[2].partition("\n\n")[0]
    assert "`connectors/rust`" in cached


def files_missing(readme, files):
    """Return the Python files that a README names in code and that no folder has."""
    named = re.findall(r"`([\w/]*\w\.py)`", readme.read_text(encoding="utf-8"))
    return [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)]


def test_files_that_readmes_name_are_there(tmp_path):
    files = [
        file.relative_to(ROOT).as_posix()
        for folder in ("services", "connectors", "tests")
        for file in (ROOT / folder).rglob("*.py")
    ]
    readmes = [*(ROOT / "services").rglob("README.md"), ROOT / "README.md"]
    assert {
        str(one): files_missing(one, files) for one in readmes if files_missing(one, files)
    } == {}
    wrong = tmp_path / "README.md"
    wrong.write_text("`task/no_such_file.py`", encoding="utf-8")
    assert files_missing(wrong, files) == ["task/no_such_file.py"]
