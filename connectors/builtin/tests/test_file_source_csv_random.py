"""Random CSV files, compared with Python's csv module and with duckdb.

The generator knows what it wrote: which records are rows, which are broken, and on which line each
begins. The reader must say the same whatever the size of its blocks is.
"""

import csv
import datetime as dt
import io
import math
import random
from decimal import Decimal

import duckdb
import pytest

from penstock_connector import DataError

TEXTS = ["", "x", "a b", "é", "\u2028", "\u0085", "\x0b", "\x1c", "\ufeff", "'", ";", "0", " "]
QUOTED = [*TEXTS, ",", "\n", "\r\n", "\r", '"', '""', '"\n', '\n"', ',"', '",\n', "\n\n"]
PLAIN = [*TEXTS, '5"', 'a"b', 'a""', "x'\""]


class File:
    """A CSV file and what is in it.

    Attributes:
        names: The columns.
        rows: What is to be read.
        broken: The line and the bytes of each record that is no row.
        data: The bytes.
    """

    def __init__(self, rng, *, broken=0.0, newlines=("\n", "\r\n")):
        self._rng, self._newlines = rng, newlines
        self.rows, self.broken = [], []
        self._ends_with_row = False
        self._text, self._lines = rng.choice(["", "\ufeff"]), 1
        self.names = [f"{rng.choice(TEXTS)}n{n}" for n in range(rng.choice([1, 2, 3]))]
        self._put(",".join(self._quote(name) for name in self.names))
        for _ in range(rng.randrange(12)):
            self._ends_with_row = False
            if rng.random() < broken:
                self._break()
            elif rng.random() < 0.1:
                self._blank()
            else:
                fields = [self._field() for _ in self.names]
                self._put(",".join(text for text, _ in fields))
                self.rows.append([value for _, value in fields])
                self._ends_with_row = True
        if rng.random() < broken:
            self.broken.append((self._lines, start := f'{"x," * (len(self.names) - 1)}"y\nz\n\n'))
            self._text += start
        elif rng.random() < 0.3 and self._ends_with_row:
            self._text = self._text.removesuffix("\n").removesuffix("\r")
        self.data = self._text.encode()

    def _field(self):
        """Return the text of a field and its value; None is an empty line."""
        if self._rng.random() < 0.4:
            value = "".join(self._rng.choices(QUOTED, k=self._rng.randrange(4)))
            rest = self._rng.choice(["", "", "", "", "z", 'z"y'])
            return self._quote(value) + rest, value + rest
        value = "".join(self._rng.choices(PLAIN, k=self._rng.randrange(4)))
        if value.startswith('"') or (not value and len(self.names) == 1):
            return "w" + value, "w" + value
        return value, value

    def _blank(self):
        self._put("")
        if len(self.names) == 1:
            self.rows.append([None])

    def _break(self):
        kind = self._rng.choice(["wide", "return", "narrow"])
        fields = [self._field()[0] for _ in self.names]
        if kind == "return":
            fields[-1] = "a\rb" + self._rng.choice(["", '"', "\r"])
        elif kind == "wide" or len(fields) == 1:
            fields += ["more"]
        else:
            fields.pop()
            fields[-1] = fields[-1] or "w"
        line = self._lines
        self.broken.append((line, self._put(",".join(fields))))

    def _put(self, record):
        raw = record + self._rng.choice(self._newlines)
        self._text += raw
        self._lines += raw.count("\n")
        return raw

    @staticmethod
    def _quote(value):
        return '"' + value.replace('"', '""') + '"'


def rows_of_csv_module(file):
    """Read with Python's csv module; an empty line has no value."""
    text = file.data.decode("utf-8-sig")
    records = list(csv.reader(io.StringIO(text, newline="")))
    rows = [row or [None] for row in records[1:] if row or len(file.names) == 1]
    return records[0], rows


def read_file(read, path, file, **config):
    types = tuple(f"{name}:string" for name in file.names)
    reader = read(path.name, tail=False, format="csv", types=types, **config)
    rows = [[row[name] for name in file.names] for row in reader.drain()]
    return rows, reader.bad


@pytest.mark.parametrize("seed", range(6))
def test_random_files_have_the_rows_that_the_csv_module_finds(read, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    for _ in range(100):
        file = File(rng)
        assert rows_of_csv_module(file) == (file.names, file.rows)
        path.write_bytes(file.data)
        for block in (rng.randrange(1, 40), 1 << 20):
            assert read_file(read, path, file, block_bytes=block)[0] == file.rows, file.data


@pytest.mark.parametrize("seed", range(6))
def test_random_broken_rows_are_dead_letters_with_their_lines(read, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    for _ in range(60):
        file = File(rng, broken=0.3)
        path.write_bytes(file.data)
        for block in (rng.randrange(1, 40), 1 << 20):
            rows, bad = read_file(read, path, file, block_bytes=block, invalid_rows="dead-letter")
            assert rows == file.rows, file.data
            assert [raw.decode() for raw, _ in bad] == [raw for _, raw in file.broken], file.data
            for (line, _), (_, error) in zip(file.broken, bad, strict=True):
                assert f"a.csv, line {line} cannot be read" in error.message
        if file.broken:
            with pytest.raises(DataError, match=f"line {file.broken[0][0]} cannot be read"):
                read_file(read, path, file)


def test_random_files_have_the_rows_that_duckdb_finds(read, tmp_path):
    rng = random.Random(7)
    path = tmp_path / "a.csv"
    compared = 0
    for _ in range(150):
        file = File(rng, newlines=[rng.choice(["\n", "\r\n"])])
        if not any(any(row) for row in file.rows):
            continue  # it takes empty lines alone for no rows
        path.write_bytes(file.data)
        columns = {f"c{n}": "VARCHAR" for n in range(len(file.names))}
        try:
            relation = duckdb.read_csv(
                str(path), header=True, auto_detect=False, columns=columns, sep=",",
                quotechar='"', escapechar='"',
            )  # fmt: skip
            found = [list(row) for row in relation.fetchall()]
        except duckdb.Error:
            continue  # it refuses text behind a closing quote, and mixed line ends
        compared += 1
        rows, _ = read_file(read, path, file, block_bytes=rng.randrange(1, 40))
        assert [[value or None for value in row] for row in rows] == [
            [value or None for value in row] for row in found
        ], file.data
    assert compared > 30


VALUES = [
    "1", "42", "-7", "0", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "01234", "-01", "+1", "0x1F", "007.5", "1.5", "0.1", "1e5", "1e400",
    "true", "FALSE", "NaN", "inf", "NA", "N/A", "NULL", "", "word", "2020-01-02", "12:34:56",
    "2020-01-02 03:04:05", "2020-01-02 03:04:05.123456", "2020-01-02 03:04:05.123456789",
    "00:00:01", "01ab", "1" + "0" * 400, "1_0", " 5", " 05",
]  # fmt: skip
NULLS = {"", "NA", "N/A", "NULL"}


def says_the_same(text, value):
    """Return whether a value says all that its text says."""
    match value:
        case None:
            return text in NULLS
        case bool():
            return text.lower() == str(value).lower()
        case int():
            return text.strip() == str(value)
        case float() if math.isfinite(value):
            number = Decimal(text)
            is_whole = number == number.to_integral_value()
            plain = text.strip().lstrip("-")
            is_code = plain.startswith("+") or (plain[0] == "0" and plain[1:2].isdigit())
            return not is_code and (Decimal(value) == number if is_whole else float(text) == value)
        case float():
            return text.lower() in {"nan", "inf"}
        case dt.datetime():
            return text in {str(value), str(value.date())}
        case dt.date():
            return text == str(value)
    return text == value


@pytest.mark.parametrize("seed", range(6))
def test_random_columns_have_values_that_say_what_their_texts_say(read, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    delivered = 0
    for _ in range(80):
        kinds = rng.sample(VALUES, k=rng.randrange(1, 4))
        texts = [rng.choice(kinds) for _ in range(rng.randrange(1, 9))]
        quote = rng.choice(["", '"'])
        delimiter = rng.choice([",", "|", "\t"])
        lines = [f"{n}{delimiter}{quote}{text}{quote}" for n, text in enumerate(texts, 1)]
        path.write_text(f"n{delimiter}v\n" + "".join(line + "\n" for line in lines))
        reader = read(
            "a.csv", tail=False, format="csv", csv_delimiter=delimiter,
            block_bytes=rng.choice([1, 30, 1 << 20]),
        )  # fmt: skip
        try:
            reader.drain()
        except DataError as error:
            assert error.code == "file.schema_incompatible"  # noqa: PT017 - some files are refused
        for row, text in zip(reader.rows, texts, strict=False):
            assert says_the_same(text, row["v"]), (texts, row)
        delivered += len(reader.rows)
    assert delivered > 150


BYTES = [b"a", b"b", b",", b",", b'"', b'"', b"\n", b"\n", b"\r", b"\r\n", b"\\", b"\xff",
         "\ufeff".encode(), "\u2028".encode()]  # fmt: skip


def outcome(reader, names):
    """Return the rows, the dead letters, and the code of the error that ended the read."""
    code = ""
    try:
        reader.drain()
    except DataError as error:
        code = error.code
    rows = [[row[name] for name in names] for row in reader.rows]
    return rows, [(raw, error.message) for raw, error in reader.bad], code


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_mean_the_same_in_blocks_of_every_size(read, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    names = ("x", "y")
    for _ in range(60):
        data = b"".join(rng.choices(BYTES, k=rng.randrange(1, 40)))
        path.write_bytes(data)
        width = rng.choice([1, 2])
        config = {
            "format": "csv",
            "tail": False,
            "csv_header": False,
            "csv_columns": tuple(f"{name}:string" for name in names[:width]),
            "csv_escape": rng.choice(["", "\\"]),
            "csv_quote": rng.choice(['"', '"', '"', ""]),
            "invalid_rows": rng.choice(["dead-letter", "dead-letter", "fail"]),
            "invalid_utf8": rng.choice(["dead-letter", "replace", "fail"]),
        }
        whole = outcome(read("a.csv", **config), names[:width])
        for block in (1, 2, 5):
            parts = outcome(read("a.csv", block_bytes=block, **config), names[:width])
            if whole[2]:
                assert parts[2] in {"file.invalid_csv", "file.invalid_utf8"}, (data, config)
            else:
                assert parts == whole, (data, config)
