"""CSV: records as RFC 4180 has them, and values that say all that their texts say."""

import pyarrow as pa
import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.file_source.records import Dialect, Records, cut_records
from penstock_connector import ConfigError, DataError

BLOCKS = [1, 7, 20, 1 << 20]


@pytest.fixture
def csv(read, tmp_path):
    """Start a reader of a CSV file of some text."""

    def start(text, **config):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "a.csv").write_bytes(data)
        return read("a.csv", **({"tail": False, "format": "csv"} | config))

    return start


def error_of(reader):
    with pytest.raises(DataError) as caught:
        reader.drain()
    return caught.value


def dead_letters(reader):
    """Return the rows, and the bytes and line of each dead letter."""
    reader.drain()
    lines = [int(error.message.split(", line ")[1].split(" ")[0]) for _, error in reader.bad]
    return reader.rows, list(zip([raw for raw, _ in reader.bad], lines, strict=True))


def column(reader):
    """Return the type and the values of the last column."""
    reader.drain()
    field = reader.batches[-1].rows.schema[-1]
    return str(field.type), [row[field.name] for row in reader.rows]


# ── where records begin and end ──────────────────────────────────────────────────────────────────


def test_a_block_ends_behind_a_record():
    cut = cut_records(Dialect(b","), strict=True, header=False)
    for data, wanted in [
        (b'a,"b\nc"\nd', 8), (b'a,"b\nc', 0), (b"a\nb\nc", 4), (b'"x""\n"\n"y\n', 7),
        (b'"a\nb\n', 0), (b'5" pipe\nb,"x\n', 8), (b'a"\nb"\nc', 6), (b'"a"b"\n"c\n', 6),
        (b'"a\r\n,b"\r\nc', 9), (b"a\rb", 2), (b"a\r", 0), (b'"a\rb', 0), (b'a,"b', 0),
    ]:  # fmt: skip
        assert cut(bytearray(data), len(data), 0) == wanted, data


@pytest.mark.parametrize(
    ("data", "opens"),
    [
        (b"", -1),
        (b'a,"b"\n', -1),
        (b'a,"b', 2),
        (b'a"b,"c""d\n', 4),
        (b'"a""b""\n', 0),
        (b'"a""', 0),
    ],
)
def test_the_quote_that_is_never_closed_is_known(data, opens):
    assert Records(data, len(data), Dialect(b",")).unclosed == opens


@pytest.mark.parametrize("block", BLOCKS)
def test_a_quote_inside_an_unquoted_value_opens_nothing(csv, block):
    text = 'n,t\n1,5" pipe\n2,filler\n3,"x\n4,y"\n5,z\n6,"a"b"c\n7,"\n"\n'
    assert csv(text, block_bytes=block).drain() == [
        {"n": 1, "t": '5" pipe'}, {"n": 2, "t": "filler"}, {"n": 3, "t": "x\n4,y"},
        {"n": 5, "t": "z"}, {"n": 6, "t": 'ab"c'}, {"n": 7, "t": "\n"},
    ]  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", '"'])
def test_the_dead_letter_is_the_bad_row(csv, block, mark):
    text = f"t,id\na{mark}b,1\nc{mark},x\nd,3\n\ne,y{mark}"
    reader = csv(text, types=("id:int64",), block_bytes=block, invalid_rows="dead-letter")
    rows, letters = dead_letters(reader)
    assert rows == [{"t": f"a{mark}b", "id": 1}, {"t": "d", "id": 3}]
    assert letters == [(f"c{mark},x\n".encode(), 3), (f"e,y{mark}".encode(), 6)]
    error = error_of(csv(text, types=("id:int64",), block_bytes=block))
    assert "a.csv, line 3 cannot be read: 'id' is no int64" in error.message


@pytest.mark.parametrize("block", BLOCKS)
def test_rows_with_other_columns_are_dead_letters_with_their_line(csv, block):
    text = 'a,b\n"x\n",k\nsame\ny,"l\n"\nsame\nz,m\n1,2,3\n'
    rows, letters = dead_letters(csv(text, block_bytes=block, invalid_rows="dead-letter"))
    assert [row["a"] for row in rows] == ["x\n", "y", "z"]
    assert letters == [(b"same\n", 4), (b"same\n", 7), (b"1,2,3\n", 9)]
    error = error_of(csv(text, block_bytes=block))
    assert "a.csv, line 4 cannot be read: it has 1 columns instead of 2: 'same'" in error.message


@pytest.mark.parametrize("mark", ["\u2028", "\x0b", "\x85", "\x1d"])
def test_names_of_the_header_may_have_separators_that_are_no_newlines(csv, mark):
    assert csv(f"id,na{mark}me,x\r\n1,2,3\r\n").drain() == [{"id": 1, f"na{mark}me": 2, "x": 3}]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_empty_line_of_one_column_is_a_row_without_a_value(csv, block, newline):
    text = newline.join(["a", "x", "", '""', "", "y", "", ""])
    wanted = ["x", None, "", None, "y", None]
    for config in ({}, {"csv_null": ""}, {"types": ("a:string",)}):
        reader = csv(text, block_bytes=block, **config)
        assert [row["a"] for row in reader.drain()] == wanted
    reader = csv(newline.join(["a", "1", "", "3", ""]), block_bytes=block)
    assert [row["a"] for row in reader.drain()] == [1, None, 3]
    reader = csv(newline.join(["a", "x", "", ""]), block_bytes=block, csv_null="-")
    assert [row["a"] for row in reader.drain()] == ["x", ""]


def test_an_empty_line_of_several_columns_is_no_row(csv):
    assert csv("a,b\n\n1,2\n\r\n\n3,4\n\n").drain() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_carriage_return_alone_ends_no_row_and_is_refused(csv, block):
    text = '"i",t\n1,"a\rb"\n2,x\r3,y\n4,z\r\n5,"\r"\r\r\n6,w\n'
    error = error_of(csv(text, block_bytes=block))
    assert error.code == "file.invalid_csv"
    assert "a.csv, line 3 cannot be read: a carriage return without a newline" in error.message
    rows, letters = dead_letters(csv(text, block_bytes=block, invalid_rows="dead-letter"))
    assert rows == [{"i": 1, "t": "a\rb"}, {"i": 4, "t": "z"}, {"i": 6, "t": "w"}]
    assert letters == [(b"2,x\r3,y\n", 3), (b'5,"\r"\r\r\n', 5)]


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("invalid", ["fail", "dead-letter"])
def test_a_file_of_carriage_returns_alone_is_refused(csv, tail, invalid):
    error = error_of(csv("id,t\r1,a\r2,b\r", tail=tail, invalid_rows=invalid))
    assert error.code == "file.invalid_header"
    assert "carriage return without a newline" in error.message


@pytest.mark.parametrize("tail", [True, False])
def test_rows_of_carriage_returns_alone_are_refused(csv, tail):
    error = error_of(csv("1,a\r2,b\r", tail=tail, csv_header=False, csv_columns=("id", "t")))
    assert error.code == "file.invalid_csv"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_quote_that_is_never_closed_is_an_error_with_its_line(csv, block):
    text = 'n,t\n1,"a\nb"\n"2\n","x ""y""\n3,z\n'
    error = error_of(csv(text, block_bytes=block))
    assert error.code == "file.invalid_csv"
    assert "a.csv, line 4 cannot be read: the quote that opens on line 5" in error.message
    rows, letters = dead_letters(csv(text, block_bytes=block, invalid_rows="dead-letter"))
    assert rows == [{"n": 1, "t": "a\nb"}]
    assert letters == [(b'"2\n","x ""y""\n3,z\n', 4)]


def test_a_header_with_a_quote_that_is_never_closed_is_refused(csv):
    error = error_of(csv('n,"t\n1,a\n'))
    assert (error.code, "never closed" in error.message) == ("file.invalid_header", True)


def test_a_tailed_quote_waits_to_be_closed(csv, tmp_path):
    reader = csv('n,t\n1,"a\n', tail=True)
    assert reader.drain() == []
    with (tmp_path / "a.csv").open("a") as file:
        file.write('b"\n')
    reader.until(lambda: reader.rows == [{"n": 1, "t": "a\nb"}])


@pytest.mark.parametrize("block", BLOCKS)
def test_a_row_of_broken_utf8_is_a_dead_letter_as_a_whole(csv, block):
    data = b'n,t\n1,"a\nb\xff\nc"\n2,"\xfe\nx"\n3,z\n'
    reader = csv(data, block_bytes=block, invalid_utf8="dead-letter")
    rows, letters = dead_letters(reader)
    assert rows == [{"n": 3, "t": "z"}]
    assert letters == [(b'1,"a\nb\xff\nc"\n', 2), (b'2,"\xfe\nx"\n', 5)]
    assert {error.code for _, error in reader.bad} == {"file.invalid_utf8"}
    assert error_of(csv(b"\xff,t\n1,2\n", invalid_utf8="dead-letter")).code == "file.invalid_header"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_byte_order_mark_counts_at_the_start_of_a_file_alone(csv, block):
    rows = csv('\ufeff"a\n",b\n\ufeffx,1\n\ufeffy,2\n', block_bytes=block).drain()
    assert rows == [{"a\n": "\ufeffx", "b": 1}, {"a\n": "\ufeffy", "b": 2}]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_escape_counts_everywhere_and_a_quote_only_at_the_start(csv, block):
    text = 'a,b\nx\\,"y,1\n\\"z,2\n5" pipe,3\n"q\\"\n""r",4\n\\\ns,5\n'
    reader = csv(text, csv_escape="\\", block_bytes=block)
    assert [row["a"] for row in reader.drain()] == ['x,"y', '"z', '5" pipe', 'q"\n"r', "\ns"]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"csv_delimiter": "\n"}, "csv.delimiter"),
        ({"csv_quote": ","}, "csv.quote"),
        ({"csv_escape": ","}, "csv.escape"),
        ({"csv_quote": "\r"}, "csv.quote"),
        ({"types": ("a:null",)}, "types"),
        ({"types": ("a:month_day_nano_interval",)}, "types"),
    ],
)
def test_a_dialect_that_cannot_be_read_is_refused_before_the_start(keys, path):
    (error,) = FileSource.validate(FileSourceConfig(path=("x",), format="csv", **keys))
    assert isinstance(error, ConfigError)
    assert error.config_path == path


def test_an_escape_that_is_the_quote_is_a_doubled_quote(csv):
    assert csv('a,b\n"x ""y""\n",1\n', csv_escape='"').drain() == [{"a": 'x "y"\n', "b": 1}]


# ── types ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["01234", "5"], "string", ["01234", "5"]),
        (['"007"', "1"], "string", ["007", "1"]),
        (["-01"], "string", ["-01"]),
        (["00.5", "1.5"], "string", ["00.5", "1.5"]),
        (["0", "-0.5", "0.25"], "double", [0.0, -0.5, 0.25]),
        (["9223372036854775807", "9223372036854775808"], "string", None),
        (["9223372036854775808"], "string", None),
        (["18446744073709551615", "1"], "string", None),
        (["9007199254740993", "1.5"], "string", None),
        (["9223372036854775807"], "int64", [2**63 - 1]),
        (["1e400", "1.5"], "string", None),
        (["1", "true", "0"], "string", None),
        (["true", "FALSE"], "bool", [True, False]),
        (["1", "0"], "int64", [1, 0]),
        (["+1", "2"], "string", None),
        (["+1.5"], "string", None),
        (["0x1F"], "string", None),
        (["1", "N/A", "", "NULL", "#N/A", "NA"], "int64", [1, None, None, None, None, None]),
        (["1.5", "inf"], "double", [1.5, float("inf")]),
        (["2020-01-01 00:00:00.123456789"], "string", None),
        (["1", "2020-01-01"], "string", None),
        (["1" + "0" * 5000], "string", None),
    ],
)
def test_a_type_is_inferred_when_it_says_all_that_the_texts_say(csv, texts, kind, values):
    reader = csv("k,v\n" + "".join(f"a,{text}\n" for text in texts))
    assert column(reader) == (kind, texts if values is None else values)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("|007|", {"csv_quote": "|"}),
        ("|-007|", {"csv_quote": "|"}),
        ("\\007", {"csv_escape": "\\"}),
        ("007", {"csv_delimiter": "~"}),
        ("007", {"csv_delimiter": "-"}),
        ("~007~", {"csv_delimiter": "-", "csv_quote": "~"}),
        ('"007"', {"csv_delimiter": "\\t"}),
        ("007", {"csv_quote": ""}),
        (" 007 ", {}),
    ],
)
def test_leading_zeros_are_seen_in_every_dialect(csv, value, keys):
    mark = {"\\t": "\t"}.get(keys.get("csv_delimiter"), keys.get("csv_delimiter", ","))
    for text in (f"k{mark}v\n5{mark}{value}\n", f"k{mark}v\n5{mark}1\n5{mark}{value}"):
        assert column(csv(text, **keys))[0] == "string"
    assert column(csv(f"v\n{value}\n", **keys))[0] == "string"


def test_nan_is_a_number(csv):
    kind, values = column(csv("k,v\na,1.5\na,NaN\n"))
    assert (kind, values[0], values[1] != values[1]) == ("double", 1.5, True)


def test_nanoseconds_that_are_zero_are_a_time(csv):
    kind, values = column(csv("k,v\na,2020-01-01 00:00:00.123456000\na,2020-01-01 00:00:01\n"))
    assert (kind, values[0].microsecond) == ("timestamp[us]", 123456)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("1", "01234"),
        ("1", "+1"),
        ("1", "0x1F"),
        ("1", "9223372036854775808"),
        ("1.5", "9007199254740993"),
        ("1.5", "007"),
        ("1.5", "1e400"),
        ("9007199254740993", "1.5"),
        ("1", "true"),
        ("true", "1"),
        ("2020-01-01 00:00:00", "2020-01-01 00:00:00.123456789"),
    ],
)
def test_a_later_text_that_its_column_cannot_say_is_an_error(csv, tmp_path, first, later):
    reader = csv(f"k,v\na,{first}\n", tail=True)
    reader.drain()
    with (tmp_path / "a.csv").open("a") as file:
        file.write(f"a,{later}\n")
    reader.source.files.changed(str(tmp_path), "a.csv", is_folder=False)
    error = error_of(reader)
    assert error.code == "file.schema_incompatible"
    assert "v" in error.message
    assert len(reader.rows) == 1


def test_numbers_in_a_column_of_texts_stay_texts_when_another_column_changes(csv):
    reader = csv("a,b\nx,1\n7,2.5\n", block_bytes=8)
    assert reader.drain() == [{"a": "x", "b": 1}, {"a": "7", "b": 2.5}]
    assert len(reader.batches) > 1


@pytest.mark.parametrize(
    ("kind", "good", "value"),
    [
        ("time", "12:34:56.5", "12:34:56.500000"),
        ("time32[s]", "12:34:56", "12:34:56"),
        ("bool", "1", "True"),
        ("int64", "007", "7"),
        ("double", "1.5", "1.5"),
        ("float16", "1.5", "1.5"),
        ("duration[s]", "5", "0:00:05"),
        ("date", "2020-01-02", "2020-01-02"),
        ("decimal(20,0)", "18446744073709551615", "18446744073709551615"),
    ],
)
def test_a_bad_value_of_a_declared_type_is_a_bad_row(csv, kind, good, value):
    text = f"k,v\na,{good}\nb,nonsense\nc,\nd,NULL\ne, {good} \n"
    types = tuple(f"v:{kind}".split(","))
    assert error_of(csv(text, types=types)).code == "file.invalid_csv"
    rows, letters = dead_letters(csv(text, types=types, invalid_rows="dead-letter"))
    assert [str(row["v"]) for row in rows] == [value, "None", "None", value]
    assert letters == [(b"b,nonsense\n", 3)]


@pytest.mark.parametrize(
    ("kind", "bad"),
    [("time", "12:34:56.1234567"), ("timestamp", "2020-01-01 00:00:00.123456789"),
     ("double", "1e400"), ("int64", "9223372036854775808"), ("time", "24:00:00")],
)  # fmt: skip
def test_a_value_that_its_declared_type_cannot_hold_is_a_bad_row(csv, kind, bad):
    reader = csv(f"k,v\na,\nb,{bad}\n", types=(f"v:{kind}",), invalid_rows="dead-letter")
    assert dead_letters(reader) == ([{"k": "a", "v": None}], [(f"b,{bad}\n".encode(), 3)])


def test_a_type_for_a_column_that_a_header_lacks_is_a_warning_that_names_the_nearest(
    read, tmp_path, caplog
):
    for name, header in (("a", "id,PRICE"), ("b", "id,prize,note"), ("c", "id,price")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n1,2{',' * (name == 'b')}\n")
    types = ("price:decimal(10", "2)", "x:int64", "id:string")
    reader = read("a.csv", "b.csv", "c.csv", tail=False, format="csv", types=types, block_bytes=9)
    reader.drain()
    first, second = [record.getMessage() for record in caplog.records]
    assert "file.no_such_column" in first
    assert "a.csv: the header has no column 'price'" in first
    assert "Did you mean 'PRICE'?" in first
    assert "'x'" in second
    assert "The columns are 'id', 'PRICE'." in second
    assert str(reader.rows[2]["price"]) == "2.00"  # a file that has it is read as declared


def test_a_type_for_a_column_that_csv_columns_does_not_name_is_refused(csv):
    with pytest.raises(ConfigError) as caught:
        csv("1,2\n", csv_header=False, csv_columns=("id", "price"), types=("prize:int64",))
    assert (caught.value.code, caught.value.config_path) == ("config.invalid_value", "types")
    assert "no column 'prize'" in caught.value.message
    assert "'price'" in caught.value.fix


@pytest.mark.parametrize("form", ["parquet", "avro", "text"])
def test_types_are_refused_where_they_mean_nothing(form):
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(path=("x",), format=form, types=("a:int64",))
    assert caught.value.config_path == "types"


def test_a_column_without_values_is_a_text(csv):
    reader = csv("a\n\n\n", block_bytes=1 << 20)
    assert column(reader) == ("string", [None, None])
    assert isinstance(reader.batches[0].rows, pa.RecordBatch)
