"""The golden vectors are what their generator writes, and Python reads all three forms alike.

Go reads them in `connectors/go/connector/vectors_test.go`, Node in `connectors/node/tests`.
"""

import base64
import importlib.util
import json

import pyarrow as pa
import pytest

from penstock.api.record.v1 import record_pb2
from penstock.spark.connector_io import json_lines
from penstock.wire import record as record_wire
from penstock_connector._frames import decode_rows, decode_schema
from penstock_connector._values import partition_from_proto, partition_to_proto
from penstock_values.identity import partition_id
from support.checkout import ROOT

FOLDER = ROOT / "proto/vectors"
NAMES = sorted(path.stem for path in FOLDER.glob("*.schema"))
SPEC = importlib.util.spec_from_file_location("vectors", FOLDER / "generate.py")
assert SPEC is not None
generate = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(generate)


def committed(name):
    """Return the rows of a committed Arrow file."""
    schema = decode_schema((FOLDER / f"{name}.schema").read_bytes())
    return decode_rows((FOLDER / f"{name}.arrow").read_bytes(), schema)


def shown(rows):
    """Return rows so that NaN equals NaN."""
    return rows.schema, repr(rows.to_pylist())


def test_there_is_a_vector_of_every_kind():
    assert sorted(name for name, _ in generate.batches()) == NAMES
    types = {str(field.type) for name in NAMES for field in committed(name).schema}
    words = ("int64", "uint64", "double", "decimal256", "timestamp[us, tz=Asia", "binary", "date32")
    assert [
        word for word in (*words, "list<", "struct<", "map<") if not any(word in t for t in types)
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_is_what_the_generator_makes(name):
    made = dict(generate.batches())[name]
    assert shown(committed(name)) == shown(made)
    assert (FOLDER / f"{name}.jsonl").read_text() == generate.json_lines(made)


@pytest.mark.parametrize("name", NAMES)
def test_json_lines_are_read_as_the_same_rows(name):
    rows = committed(name)
    read = json_lines.parse_rows((FOLDER / f"{name}.jsonl").read_bytes(), rows.schema)
    read.validate(full=True)
    assert shown(read) == shown(rows)


def test_one_digit_would_be_seen():
    """The twin: a vector that differs in its last digit goes red."""
    text = (FOLDER / "integers.jsonl").read_text()
    other = text.replace("9007199254740993", "9007199254740992", 1).encode()
    rows = committed("integers")
    assert shown(json_lines.parse_rows(other, rows.schema)) != shown(rows)


def test_partitions_and_offsets_are_read_the_same():
    assert (FOLDER / "offsets.json").read_text() == generate.offsets()
    for entry in json.loads((FOLDER / "offsets.json").read_text()):
        data = base64.b64decode(entry["partition"])
        message = record_pb2.Partition.FromString(data)
        partition = partition_from_proto(message)
        assert partition_to_proto(partition) == message
        assert partition.id == message.partition_id == entry["id"]
        ours = record_wire.partition_from_proto(message)
        assert partition_id(ours.key) == entry["id"]
        assert (ours.offset or {}) == (partition.offset or {})


def test_a_schema_alone_is_a_message():
    for name in NAMES:
        data = (FOLDER / f"{name}.schema").read_bytes()
        assert pa.ipc.read_schema(pa.py_buffer(data)).serialize().to_pybytes() == data
