"""Secrets are printed by nothing (invariant 9)."""

from __future__ import annotations

import copy
import io
import logging
import pickle

import pytest

from penstock.telemetry.logs import LogFormat, configure_logging
from penstock.telemetry.redaction import RedactionFilter, Secret, redact_secrets, register_secret

CANARY = "c4n4ry/of p@ss:words"


@pytest.fixture
def lines():
    """What is logged, as text, with the root logger put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    yield stream
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("print_it", [str, repr, "{}".format, "{0!r}".format, "%s".__mod__])
def test_a_secret_prints_as_a_mask(print_it):
    assert "***" in print_it(Secret(CANARY))
    assert CANARY not in print_it(Secret(CANARY))


def test_a_secret_reveals_itself_when_asked_and_compares_by_value():
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(CANARY) == Secret(CANARY) != Secret("other")
    assert CANARY not in repr({"password": Secret(CANARY)})


def test_a_secret_leaves_the_process_by_no_pickle():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        copy.deepcopy(Secret(CANARY))


@pytest.mark.parametrize("form", [LogFormat.TEXT, LogFormat.JSON])
def test_registered_secrets_are_in_no_message_argument_or_traceback(lines, form):
    register_secret(CANARY)
    configure_logging(form, stream=lines)
    log = logging.getLogger("some.library")
    log.warning(f"connecting with {CANARY}")  # noqa: G004 - as careless code does
    log.warning("connecting to %s", "mysql://u:c4n4ry%2Fof%20p%40ss%3Awords@host")
    try:
        raise ValueError(f"bad password {CANARY}")
    except ValueError:
        log.exception("it failed")
    text = lines.getvalue()
    assert "c4n4ry" not in text
    assert text.count("***") >= 3
    assert "ValueError: bad password" in text


def test_the_check_sees_a_secret_when_the_filter_is_missing(lines):
    """The twin: without the filter, the canary is there."""
    register_secret(CANARY)
    configure_logging(stream=lines)
    for handler in logging.getLogger().handlers:
        handler.filters.clear()
    logging.getLogger("some.library").warning("connecting with %s", CANARY)
    assert CANARY in lines.getvalue()


def test_longer_secrets_are_masked_before_their_prefixes():
    register_secret("abcd")
    register_secret("abcdefgh")
    assert redact_secrets("x abcdefgh y abcd") == "x *** y ***"


def test_values_that_occur_in_every_word_are_not_masked():
    register_secret("a")
    register_secret("")
    assert redact_secrets("a banana") == "a banana"


def test_a_record_with_arguments_that_do_not_fit_harms_nobody():
    record = logging.LogRecord("x", logging.WARNING, __file__, 1, "%d items", ("many",), None)
    assert RedactionFilter().filter(record)
    assert "do not match" in record.getMessage()
