"""What the kit does without a plugin: cases, declarations, rows, results."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.api.record.v1 import record_pb2
from penstock.cli.__main__ import main
from penstock.model.errors import ConfigError
from penstock_kit.conformance import (
    ConnectorDeclaration,
    Outcome,
    Result,
    as_json,
    format_record,
    load_spec,
    print_results,
    read_declaration,
    summary,
)
from penstock_kit.conformance.results import NotApplicableError, RuleBrokenError
from penstock_kit.conformance.rows import (
    RowGenerator,
    decode_rows,
    describe_difference,
    encode_rows,
    equal_values,
    parse_json_lines,
)
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.sink_trial import output_difference

PASS = Result("queue", "read.rows", "MUST", Outcome.PASS, "", 0.5)
FAIL = Result("queue", "read.end", "MUST", Outcome.FAIL, "no [bold]end\x1b", 1.0)
WISH = Result("", "start.file", "SHOULD", Outcome.FAIL, "not written", 0.1)
NONE = Result("queue", "read.values", "MUST", Outcome.NOT_APPLICABLE, "no file", 0.0)


# ── cases ──


def test_a_case_is_chosen_by_its_name_or_by_how_it_begins():
    spec = load_spec()
    assert [case.id for case in spec.select(["read.rows"]).cases] == ["read.rows"]
    assert {case.id.partition(".")[0] for case in spec.select(["read"]).cases} == {"read"}
    assert spec.select([]) is spec


def test_a_case_that_there_is_not_is_told_with_the_nearest():
    with pytest.raises(ConfigError) as error:
        load_spec().select(["read.row"])
    assert error.value.code == "conformance.no_case"
    assert "read.rows" in error.value.diagnostic.fix


def test_cases_of_connectors_are_for_sources_and_for_sinks():
    spec = load_spec()
    both = {case.id for case in spec.cases if case.kind == "connector"}
    for kind in ("source", "sink"):
        assert both < {case.id for case in spec.of_kind(kind)}
    assert not both & {case.id for case in spec.of_kind("plugin")}


# ── declarations ──


def declaration(tmp_path, text):
    path = tmp_path / "conformance.toml"
    path.write_text(text, encoding="utf-8")
    return read_declaration(path)


def test_a_declaration_is_read(tmp_path):
    text = '[[connector]]\nname = "a"\nrows = 3\nsetup = [["true", "1"]]\nconfig = {k = "v"}\n'
    declared = declaration(tmp_path, text).of("a")
    assert declared == ConnectorDeclaration("a", config={"k": "v"}, setup=(("true", "1"),), rows=3)


@pytest.mark.parametrize(
    "text",
    [
        "no toml",
        "[[connector]]\nrows = 3",
        '[[connector]]\nname = "a"\nrow = 3',
        '[[connector]]\nname = "a"\nrows = "3"',
        '[[connector]]\nname = "a"\nconfig = {k = 1}',
        '[[connector]]\nname = "a"\nsetup = ["true"]',
        '[[connector]]\nname = "a"\nmore = "true"',
        "other = 1",
    ],
)
def test_a_broken_declaration_is_refused_with_its_place(tmp_path, text):
    with pytest.raises(ConfigError) as error:
        declaration(tmp_path, text)
    assert error.value.code == "conformance.bad_declaration"
    assert "conformance.toml" in str(error.value)


def test_without_its_variable_nothing_of_a_connector_applies(tmp_path, monkeypatch):
    monkeypatch.delenv("A_PORT", raising=False)
    sandbox = Sandbox(
        ConnectorDeclaration("a", config={"port": "{env:A_PORT}"}), tmp_path, tmp_path
    )
    with pytest.raises(NotApplicableError, match="A_PORT is not set"):
        sandbox.target()


def test_placeholders_are_filled_in_and_other_braces_are_left(tmp_path, monkeypatch):
    monkeypatch.setenv("A_PORT", "77")
    declared = ConnectorDeclaration(
        "a", config={"path": "{work}/x"}, secrets={"key": "{env:A_PORT}"}
    )
    sandbox = Sandbox(declared, tmp_path / "folder", tmp_path)
    assert sandbox.expand("{work}|{folder}|${topic}|{other}") == (
        f"{tmp_path}|{tmp_path / 'folder'}|${{topic}}|{{other}}"
    )
    target = sandbox.target(path=None, more="1")
    assert dict(target.config) == {"more": "1"}
    assert dict(target.secrets) == {"key": "77"}
    assert sandbox.normalize(f"{tmp_path}/x {sandbox.name}") == "{work}/x {name}"


# ── rows ──


@pytest.mark.parametrize(
    "encoding", [record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES]
)
def test_rows_come_back_as_they_were_in_both_encodings(encoding):
    schema = pa.schema([("big", pa.int64()), ("amount", pa.decimal128(38, 10))])
    rows = [{"big": 2**53 + 1, "amount": Decimal("1.5000000000")}, {"big": None, "amount": None}]
    data = encode_rows(rows, schema, encoding)
    assert decode_rows(data, bytes(schema.serialize()), encoding) == [
        {"big": 2**53 + 1, "amount": "1.5000000000"},
        {"big": None, "amount": None},
    ]


def test_what_is_no_arrow_is_a_broken_rule():
    with pytest.raises(RuleBrokenError):
        decode_rows(b"nonsense", b"more of it", record_pb2.ENCODING_ARROW_IPC)


def test_a_text_with_odd_ends_of_lines_stays_one_row():
    row = {"text": "a\u2028b\x85c"}
    data = json.dumps(row, ensure_ascii=False).encode()
    assert decode_rows(data, b"", record_pb2.ENCODING_JSON_LINES) == [row]
    assert parse_json_lines(data.decode()) == [row]


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        (Decimal("1.50"), Decimal("1.5"), True),
        (Decimal("1.50"), "1.5", True),
        (Decimal("1.50"), 1.5, False),  # a float has lost what may have been there
        (2**53 + 1, 2**53 + 1, True),
        (2**53 + 1, 2**53, False),
        (1, True, False),
        (0.1, Decimal("0.1"), True),
        ("007", 7, False),
        (None, "", False),
        (b"\x00", "AA==", True),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z", True),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 01:00:00+01:00", True),
        (datetime(2026, 1, 2, tzinfo=UTC), "yesterday", False),
    ],
)
def test_a_value_is_the_same_however_it_is_spelled(wanted, found, equal):
    assert equal_values(wanted, found) is equal


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (["a", "b"], "1 missing"),
        (["a", "b", "c", "d"], "unexpected"),
        (["a", "b", "c", "c"], "repeated"),
        (["a", "c", "b"], "another order"),
    ],
)
def test_a_difference_is_told_in_words(found, words):
    assert words in describe_difference(["a", "b", "c"], found)


def test_no_difference_is_no_word():
    assert describe_difference(["a"], ["a"]) == ""


def test_what_is_visible_is_compared_by_key_or_in_order():
    wanted = [{"id": 1, "t": "a"}, {"id": 2, "t": "b"}]
    assert output_difference(wanted, wanted[::-1], ordered=False, keys=("id",)) == ""
    assert "row 0" in output_difference(wanted, wanted[::-1], ordered=True, keys=("id",))
    assert "3 rows are visible, 2" in output_difference(
        wanted, [*wanted, wanted[0]], ordered=False, keys=("id",)
    )


def test_rows_of_the_kit_are_all_different_and_the_hard_ones_are_hard(tmp_path):
    columns = {"id": "int64", "text": "string", "amount": "decimal(38,10)"}
    rows = RowGenerator(ConnectorDeclaration("a", columns=columns), tmp_path)
    assert [row["id"] for row in rows.rows(3, 2)] == [3, 4]
    hard = rows.edge_rows()
    assert len({row["id"] for row in hard}) == len(hard)
    assert hard[-1]["text"] is None
    assert hard[0]["amount"] == Decimal("9" * 28 + "." + "9" * 10)
    pa.RecordBatch.from_pylist(hard, schema=rows.schema)  # they fit into their types


def test_a_type_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown type"):
        RowGenerator(ConnectorDeclaration("a", columns={"id": "number"}), tmp_path)


# ── results ──


def test_only_a_must_breaks():
    assert [one.is_violation for one in (PASS, FAIL, WISH, NONE)] == [False, True, False, False]
    assert as_json([PASS, WISH], plugin="p", spec="1")["conforms"] is True
    assert as_json([PASS, FAIL], plugin="p", spec="1")["conforms"] is False


def test_what_is_kept_has_no_times():
    slower = replace(PASS, seconds=9.0)
    assert format_record([PASS, NONE], plugin="p", spec="1") == format_record(
        [slower, NONE], plugin="p", spec="1"
    )
    table = json.loads(format_record([WISH, PASS, NONE], plugin="p", spec="1"))
    assert table["cases"] == {
        "(process)": {"start.file": "fail"},
        "queue": {"read.rows": "pass", "read.values": "n/a: no file"},
    }


def test_the_table_shows_what_a_plugin_says_without_obeying_it():
    console = Console(width=160, record=True, force_terminal=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115 - closed below
    try:
        print_results([PASS, FAIL], console)
        shown = console.export_text()
    finally:
        console.file.close()
    assert "no [bold]end\\x1b" in shown
    told = "1 passed, 2 failed, 1 of them a MUST, 1 not applicable"
    assert summary([PASS, FAIL, WISH, NONE]) == told


def test_a_cause_of_many_failures_is_printed_once_with_the_names_of_the_cases():
    console = Console(width=160, record=True, file=io.StringIO())
    cause = "its HTTP/2 server reset the call before it was answered"
    alike = [replace(FAIL, case=f"read.{name}", reason=cause) for name in ("rows", "end", "bytes")]
    print_results([PASS, *alike, replace(FAIL, case="read.counts", reason="another")], console)
    shown = console.export_text()
    assert shown.count(cause) == 1
    assert "fails 3 cases: queue read.rows, queue read.end, queue read.bytes" in shown
    assert shown.count("another") == 1


def test_a_whole_arrow_stream_is_named_as_the_mistake():
    schema = pa.schema([("id", pa.int64())])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([{"id": 1}], schema=schema))
    with pytest.raises(RuleBrokenError, match="begins with a schema"):
        decode_rows(sink.getvalue(), bytes(schema.serialize()), record_pb2.ENCODING_ARROW_IPC)


def test_a_plugin_that_is_not_there_is_told_once_and_ends_the_command_with_2(capsys, tmp_path):
    for word in ("no-such-program", str(tmp_path)):
        assert main(["plugin", "test", word]) == 2
        assert capsys.readouterr().err.count("conformance.no_program") == 1


def test_a_case_that_there_is_not_ends_the_command_with_2(capsys):
    assert main(["plugin", "test", "--case", "no.such", "true"]) == 2
    assert "conformance.no_case" in capsys.readouterr().err
