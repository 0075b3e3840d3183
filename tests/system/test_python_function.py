"""A function of the user between a file and a file; and a row on which it fails stops the task."""

from support.standalone import Standalone

FUNCTIONS = """
def number(row):
    return {"line": row["line"].upper(), "number": int(row["line"][1:])}
"""


def test_a_function_changes_rows_and_a_bad_row_is_named(tmp_path):
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "mine.py").write_text(FUNCTIONS, encoding="utf-8")
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("a1\nb2\n", encoding="utf-8")
    reading = {
        "connector.class": "FileStreamSource", "file": source, "topic": "t",
        "transforms": "f", "transforms.f.type": "python", "transforms.f.function": "mine:number",
        "transforms.f.mode": "row", "transforms.f.columns": "line string, number int64",
    }  # fmt: skip
    writing = {
        "connector.class": "file-sink", "file": target, "topics": "t", "format": "jsonl",
    }  # fmt: skip
    settings = {"functions.path": tmp_path / "functions"}
    with Standalone(tmp_path / "node", settings, read=reading, write=writing) as node:
        node.wait_for(lambda: target.exists() and target.read_text().count("\n") == 2, "two rows")
        assert target.read_text(encoding="utf-8").splitlines() == [
            '{"line":"A1","number":1}',
            '{"line":"B2","number":2}',
        ]
        with source.open("a", encoding="utf-8") as lines:
            lines.write("bad\n")
        assert node.failure("read") == "transform.function_failed"
