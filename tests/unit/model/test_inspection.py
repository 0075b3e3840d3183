"""Names of the stages at which rows are inspected."""

import pytest

from penstock.model.inspection import RowStage, list_stage_names, parse_stage


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
def test_a_stage_is_read_or_transformed_or_a_transform(text, stage):
    found = parse_stage(text)
    assert found == stage
    assert isinstance(found, RowStage) is isinstance(stage, RowStage)


def test_each_listed_stage_name_can_be_parsed():
    names = ["keep", "read", "transforms.x", "transformed"]
    told = list_stage_names(names)
    assert told == [
        "read", "keep", "transforms.read", "transforms.transforms.x", "transforms.transformed",
        "transformed",
    ]  # fmt: skip
    assert [parse_stage(one) for one in told[1:-1]] == names
