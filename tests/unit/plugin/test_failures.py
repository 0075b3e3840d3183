"""What a plugin says of an error, fit for a status and for a terminal."""

from penstock.model.errors import CONNECTOR_DEFECT, Diagnostic
from penstock.plugin.errors import clean_diagnostic
from penstock.plugin.process.logs import Redactor

TRACE = "Traceback:\n  File a.py, line 3\n    url = 'hunter22'\nKeyError: \x1b[2J"


def test_a_stack_trace_keeps_its_lines_and_neither_secrets_nor_control_characters():
    redact = Redactor()
    redact.add_secrets(["hunter22"])
    told = clean_diagnostic(Diagnostic(CONNECTOR_DEFECT, "a\nb", detail=TRACE), redact)
    assert told.message == "a\\nb"
    assert told.trace.split("\n") == [
        "Traceback:",
        "  File a.py, line 3",
        "    url = '***'",
        "KeyError: \\x1b[2J",
    ]


def test_a_detail_is_bounded():
    told = clean_diagnostic(Diagnostic("a.b", "no", detail="x" * 10_000), lambda text: text)
    assert len(told.detail) <= 2_001
