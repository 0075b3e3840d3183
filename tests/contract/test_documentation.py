"""The documentation in `deploy/docs`: its reference is fresh, it builds, and its links lead
somewhere, on the site and in the web view of a repository.
"""

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from fence_marks import on_page_markdown
from reference import PAGES as REFERENCE
from reference import error_codes, stale_pages
from reference.connector_keys import shipped_connectors
from support.checkout import ROOT, run
from support.readme import PAGES

CONFIG = PAGES.parent / "mkdocs.yml"
FILES = sorted(PAGES.rglob("*.md"))
COMMAND = "PYTHONPATH=deploy/docs python -m reference"


def name_of_page(file):
    return file.relative_to(PAGES).as_posix()


def test_the_reference_is_fresh():
    assert sorted(stale_pages()) == [], f"run `{COMMAND}`"


def test_a_page_of_the_reference_that_is_edited_or_missing_goes_red(tmp_path, monkeypatch):
    monkeypatch.setattr("reference.FOLDER", tmp_path)
    monkeypatch.setattr("reference.PAGES", {f"{name}.md": lambda: "# A\n" for name in "abc"})
    (tmp_path / "a.md").write_text("# A\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("# B\n", encoding="utf-8")
    assert sorted(stale_pages()) == ["b.md", "c.md"]


def test_every_page_of_the_reference_says_how_it_is_written():
    for name in REFERENCE:
        assert COMMAND in (PAGES / "reference" / name).read_text(encoding="utf-8")


def build(config, folder):
    """`mkdocs build --strict`"""
    return run(
        "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder,
        NO_MKDOCS_2_WARNING="1",
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(CONFIG, folder)
    assert built.returncode == 0, built.stdout
    return folder


def test_it_builds_without_a_warning(site):
    assert (site / "index.html").is_file()
    assert (site / "search" / "search_index.json").is_file()


def test_no_page_loads_anything_from_another_server(site):
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?(https?:[^\">\s]+)")
    found = {
        (file.name, url)
        for file in site.rglob("*.html")
        for url in loaded.findall(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_no_mark_of_a_command_is_seen(site):
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert "tested-by=" not in text
        assert "not-run=" not in text
        assert "```" not in text, file


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ("bash run", "bash"),
        ("bash tested-by=tests/x.py", "bash"),
        ('bash not-run="it is paid"', "bash"),
        ('bash title="run it"', 'bash title="run it"'),
        ("yaml", "yaml"),
    ],
)
def test_marks_are_left_out_and_titles_stay(info, shown):
    assert on_page_markdown(f"```{info}\na\n```\n") == f"```{shown}\na\n```\n"


def pages_of_nav(nav):
    """Yield the files that the navigation names."""
    for entry in nav:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(target, list):
            yield from pages_of_nav(target)
        else:
            yield target


def test_every_page_is_in_the_navigation_once():
    # the other tags of the file are MkDocs' own
    nav = yaml.safe_load(CONFIG.read_text(encoding="utf-8").partition("\nnav:")[2])
    assert sorted(pages_of_nav(nav)) == [name_of_page(file) for file in sorted_by_name(FILES)]


def sorted_by_name(files):
    return sorted(files, key=name_of_page)


FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def without_code(text):
    """A text without fenced blocks and code, in which brackets mean nothing."""
    return re.sub(r"`[^`\n]*`", "``", FENCED.sub("", text))


def anchors(text):
    """The places of a page: its headings as GitHub and Python-Markdown both name them."""
    heads = re.findall(r"^#+ (.*?) *$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(file: Path) -> list[str]:
    """The relative links of a page that lead nowhere, or out of the pages."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(file.read_text(encoding="utf-8"))):
        if re.match(r"https?://", target):
            continue
        path, _, place = target.partition("#")
        other = (file.parent / path).resolve() if path else file
        is_page = other.is_relative_to(PAGES) and other.is_file()
        if not is_page or (place and place not in anchors(other.read_text(encoding="utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("file", FILES, ids=name_of_page)
def test_every_relative_link_leads_somewhere(file):
    assert broken_links(file) == []


def test_a_link_that_leads_nowhere_goes_red():
    file = PAGES / "zz.md"
    for link in ("gone.md", "../README.md", "index.md#no-such-place"):
        page = FakePage(file, f"[a]({link})")
        assert broken_links(page) == [link]


class FakePage:
    """A page that is not written."""

    def __init__(self, file, text):
        self.parent = file.parent
        self._text = text

    def read_text(self, encoding):
        return self._text


@pytest.mark.parametrize("file", sorted(PAGES.rglob("*.svg")), ids=name_of_page)
def test_a_drawing_has_text_as_text_and_says_what_it_shows(file):
    root = ET.fromstring(file.read_text(encoding="utf-8"))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"title", "desc", "text"} <= tags
    assert not {"image", "script", "foreignObject"} & tags


def test_the_first_pipeline_is_that_of_the_readme():
    """The commands behind it are run with that one."""
    start, readme = PAGES / "index.md", ROOT / "README.md"
    pipelines = [
        re.findall(
            r"```yaml\n(name: errors-only.*?)```", file.read_text(encoding="utf-8"), re.DOTALL
        )
        for file in (start, readme)
    ]
    assert pipelines[0] == pipelines[1]
    assert len(pipelines[0]) == 1


def test_the_number_of_connectors_is_right():
    text = (PAGES / "compared.md").read_text(encoding="utf-8")
    assert f"| connectors | {len(shipped_connectors())}, " in text


def test_every_code_of_the_runbooks_is_in_the_reference():
    pages = PAGES / "operate" / "runbooks" / "codes.md", PAGES / "reference" / "error-codes.md"
    told, listed = (
        {
            code
            for row in re.findall(
                r"^\| (`[^|]*) \|", file.read_text(encoding="utf-8"), re.MULTILINE
            )
            for code in re.findall(r"`([a-z0-9_.]+)`", row)
        }
        for file in pages
    )
    assert len(told) > 50
    assert told - listed == set()


def codes_of(source):
    return error_codes.find_codes([ast.parse(source)])


def test_a_code_is_found_where_its_error_is_made():
    found = codes_of(
        'def bad(code, word, fix=""):\n'
        '    return ConfigError(code, f"{word} is bad", fix=fix)\n'
        'LOST = "a.lost"\n'
        "class Gone(RetriableError):\n"
        "    def __init__(self):\n"
        '        super().__init__("a.gone", "it went", fix="Wait.")\n'
        'raise bad("a.bad", 1, fix="Write another.")\n'
        'raise OffsetLostError(LOST, "lost")\n'
    )
    assert {name: list(one.classes) for name, one in found.items()} == {
        "a.gone": ["RETRIABLE"], "a.bad": ["CONFIG"], "a.lost": ["OFFSET_LOST"],
    }  # fmt: skip
    assert list(found["a.bad"].messages) == ["… is bad"]
    assert list(found["a.bad"].fixes) == ["Write another."]


def test_codes_of_tables_and_of_another_part_are_found():
    found = codes_of(
        'ConfigError("b.away", "away")\n'
        'A = {1: (AuthError, "b.refused", "Log in.")}\n'
        'B = {"b.away": "c.away"}\n'
    )
    assert list(found["b.refused"].classes) == ["AUTH"]
    assert list(found["c.away"].messages) == ["away"]
