"""Every command in a README or a page is run: by this test, by another one, or it says why not."""

import pytest

from support.checkout import name_of
from support.readme import Block, blocks, complaint, matches, play, readmes

FILES = {name_of(file): list(blocks(file.read_text(), name_of(file))) for file in readmes()}
STORIES = {
    name: story
    for name, all_blocks in FILES.items()
    if (story := [block for block in all_blocks if "run" in block.marks])
}


@pytest.mark.parametrize("name", FILES)
def test_every_block_says_who_runs_it(name):
    assert [text for block in FILES[name] if (text := complaint(block))] == []


@pytest.mark.parametrize("name", STORIES)
def test_what_a_readme_tells_to_do_works(name, tmp_path):
    play(STORIES[name], tmp_path)


def block_of(info: str, body: str, readme: str = "X.md") -> Block:
    (block,) = blocks(f"# A\n\n```{info}\n{body}\n```\n", readme)
    return block


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ("bash", "say who runs it"),
        ("console", "say who runs it"),
        ("sh runs", "say who runs it"),
        ("bash run not-run=x", "say who runs it"),
        ("bash not-run=", "say why"),
        ("bash tested-by=tests/nothing.py", "there is no"),
        ("bash tested-by=tests/contract/test_layers.py", "does not name"),
    ],
)
def test_a_block_that_nobody_runs_goes_red(info, words):
    assert words in complaint(block_of(info, "bash no/such/script.sh"))


@pytest.mark.parametrize(
    "info",
    ["bash run", 'bash not-run="it costs money"', "bash tested-by=tests/support/readme.py"],
)
def test_a_block_that_somebody_runs_is_in_order(info):
    assert complaint(block_of(info, "bash tests/x.py")) is None


TYPED_PAGE = "deploy/docs/pages/operate/runbooks/etcd.md"


@pytest.mark.parametrize("info", ["bash", 'bash title="a"', 'bash title="a" not-run="b"'])
def test_a_block_of_a_folder_with_a_test_of_its_own_is_in_order(info):
    assert complaint(block_of(info, "etcdctl member list", TYPED_PAGE)) is None


@pytest.mark.parametrize(
    ("info", "page"),
    [
        ("bash", "deploy/docs/pages/operate/sizing.md"),
        ('bash title="a"', "deploy/docs/pages/operate/sizing.md"),
        ("bash quietly", TYPED_PAGE),
    ],
)
def test_a_block_of_a_page_that_nobody_types_goes_red(info, page):
    assert "say who runs it" in complaint(block_of(info, "etcdctl member list", page))


def test_other_languages_are_no_commands():
    assert list(blocks("```yaml\na: 1\n```\n```\nbash\n```\n", "X.md")) == []


def test_blocks_of_a_readme_share_a_folder_that_looks_like_the_root(tmp_path):
    play([block_of("bash run", "ls pyproject.toml\necho 1 > made")], tmp_path)
    folder = tmp_path / "second"
    folder.mkdir()
    story = [
        block_of("bash run", "echo 1 > made"),
        block_of("console run", "$ cat made\n1\n$ echo a; echo b\n…b"),
    ]
    play(story, folder)


@pytest.mark.parametrize("body", ["false", "echo $UNSET_NAME", "false | true"])
def test_a_command_that_fails_goes_red(tmp_path, body):
    with pytest.raises(AssertionError, match=r"X\.md:3 ended with"):
        play([block_of("bash run", body)], tmp_path)


def test_a_command_that_prints_something_else_goes_red(tmp_path):
    with pytest.raises(AssertionError, match="printed"):
        play([block_of("console run", "$ echo one\ntwo")], tmp_path)


def test_an_ellipsis_stands_for_anything():
    assert matches("a … c\n…\nz", "a b c\nd\nz\n")
    assert not matches("a … c", "a b d")
