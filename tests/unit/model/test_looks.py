"""What people call the places where rows are looked at."""

import pytest

from penstock.model.live_rows import RowStage, read_stage, stage_names


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("read", RowStage.READ),
        ("transformed", RowStage.TRANSFORMED),
        ("unspecified", "unspecified"),
        ("keep", "keep"),
        ("transforms.keep", "keep"),
        ("transforms.read", "read"),
        ("transforms.transforms.x", "transforms.x"),
        ("transforms.", "transforms."),
    ],
)
def test_a_stage_is_one_of_two_words_or_a_transform(text, stage):
    found = read_stage(text)
    assert found == stage
    assert isinstance(found, RowStage) is isinstance(stage, RowStage)


def test_stages_are_named_so_that_each_can_be_looked_at():
    names = ["keep", "read", "transforms.x", "transformed"]
    told = stage_names(names)
    assert told == [
        "read", "keep", "transforms.read", "transforms.transforms.x", "transforms.transformed",
        "transformed",
    ]  # fmt: skip
    assert [read_stage(one) for one in told[1:-1]] == names
