"""Every transform gives the values of its golden table: in Spark, and as a kernel if it has one."""

import pyarrow as pa
import pytest

from penstock.model.columns import HEADERS
from penstock.model.errors import ConfigError
from penstock.model.step import ROW
from penstock.spark.rejected_rows import RejectedRows, apply_kernels
from penstock.transform.configuration import build_chain
from penstock.transform.registry import TRANSFORMS_BY_NAME
from penstock.transform.row import Row
from penstock_values.semantic_types import semantic_type
from support.transforms import DATASET, cases, plain, schema_of

CASES = cases()
RUN = [case for case in CASES if not case.refused]
KERNELS = 110


def name(case):
    return f"{case.file}: {case.case}"


def compiled(case):
    return build_chain(case.config).compile(DATASET, case.schema)


def in_spark(spark, case):
    """Run the steps as the engine does; returns the rows, and the codes of the rejected rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from penstock.spark.plan import apply_steps
    from penstock.spark.rejected_rows import ERROR, with_tracking_columns
    from penstock.spark.slot_reports import read_diagnostic

    batch = case.batch
    rows = pa.RecordBatch.from_arrays(
        [
            *batch.columns,
            pa.array(range(batch.num_rows), pa.int64()),
            pa.nulls(batch.num_rows, pa.string()),
        ],
        schema=with_tracking_columns(batch.schema),
    )
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    frame = spark.createDataFrame(pa.Table.from_batches([rows]), schema)
    frame, _ = apply_steps(frame, compiled(case).steps, tracked=True)
    table = frame.toArrow()
    errors = table[ERROR].to_pylist()
    numbers = table[ROW].to_pylist()
    rejected = {
        row: read_diagnostic(error) for row, error in zip(numbers, errors, strict=True) if error
    }
    good = table.filter(pa.array([error is None for error in errors]))
    return good.drop_columns([ROW, ERROR]), rejected


@pytest.mark.parametrize("case", RUN, ids=name)
def test_spark_gives_the_values_of_the_table(spark, case):
    rows, rejected = in_spark(spark, case)
    assert rows.schema.names == list(case.gives)
    assert rows.schema.types == schema_of(case.gives).types
    assert plain(rows) == case.expected
    assert {row: found.code for row, found in rejected.items()} == case.rejects
    assert {found.config_path for found in rejected.values()} <= {"transforms.t"}


def kernels_of(case):
    return [step.kernel for step in compiled(case).steps]


@pytest.mark.parametrize("case", [c for c in RUN if all(kernels_of(c))], ids=name)
def test_kernels_give_the_values_of_the_table(case):
    batch = case.batch.append_column(ROW, pa.array(range(case.batch.num_rows), pa.int64()))
    rejected = RejectedRows()
    batch = apply_kernels(batch, kernels_of(case), rejected).drop_columns([ROW])
    assert batch.schema.names == list(case.gives)
    assert batch.schema.types == schema_of(case.gives).types
    assert plain(batch) == case.expected
    assert {row: found.code for row, found in rejected.rows} == case.rejects


@pytest.mark.parametrize("case", RUN, ids=name)
def test_the_chain_knows_the_output_types(case):
    row = Row.of(case.schema)
    for link in build_chain(case.config).links:
        row = link.resolve(DATASET, row).row_after(row)
    wanted = schema_of(case.gives)
    assert row.names == tuple(wanted.names)
    for column, field in zip(row, wanted, strict=True):
        assert column.type in {field.type, None}
        if column.name != HEADERS:  # of whose values the tables have no types
            assert column.semantic_type == semantic_type(field)


@pytest.mark.parametrize("case", [c for c in CASES if c.refused], ids=name)
def test_a_refused_configuration_has_the_code_of_the_table_and_a_fix(case):
    with pytest.raises(ConfigError) as caught:
        compiled(case)
    found = caught.value.diagnostic
    assert found.code == case.refused
    assert found.config_path.startswith("transforms.t")
    assert found.fix


def test_every_transform_has_a_table_but_those_with_tests_of_their_own():
    here = {TRANSFORMS_BY_NAME[case.transform["type"]].names[0].split("$")[0] for case in CASES}
    every = {kind.names[0].split("$")[0] for kind in TRANSFORMS_BY_NAME.values()}
    assert every - here == {"Project", "RegexRouter", "python"}


def test_enough_cases_have_kernels():
    assert sum(all(kernels_of(case)) for case in RUN) >= KERNELS


def test_a_wrong_value_in_a_table_goes_red():
    case = next(case for case in RUN if all(kernels_of(case)) and case.after)
    (kernel,) = kernels_of(case) or [lambda batch: batch]
    wrong = plain(kernel(case.batch))
    wrong[0][0] = "another"
    assert wrong != case.expected
