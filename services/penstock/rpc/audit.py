"""A line for every change that a person asks a service for directly, with a certificate of his own:
who, what, from where, and how it ended. What came by the gateway is told there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from penstock.model.errors import PenstockError
from penstock.rpc.roles import OPERATOR, ROLES, VIEWER, roles_of

log = logging.getLogger("penstock.audit")

NAMES: Final = "x509_subject_alternative_name"
_COMMON_NAME: Final = "x509_common_name"

READING: Final = (
    *("Get", "List", "Watch", "Stream", "Diff", "Describe", "Validate", "Inspect", "Read"),
    *("Check", "Rehearse"),
)
"""How methods begin that change nothing. One that begins otherwise is told."""

_PEOPLE: Final = frozenset({OPERATOR, VIEWER})
_SERVICES: Final = ROLES - _PEOPLE


@contextmanager
def audited(context: Any, method: str, request: Any) -> Iterator[None]:
    """Tell of a call when it has ended, if it is a person's and may have changed something."""
    shown = context.auth_context()
    told = by_a_person(roles_of(shown.get(NAMES, ()))) and not reads(method)
    status = "OK"
    try:
        yield
    except PenstockError as error:
        status = error.code
        raise
    except BaseException as error:
        status = type(error).__name__
        raise
    finally:
        if told:
            line = {
                "who": _text(shown.get(_COMMON_NAME, ())) or _text(shown.get(NAMES, ())),
                "from": context.peer(),
                "method": method.lstrip("/"),
                "connector": connector_of(request),
                "status": status,
            }
            # JSON: a name can neither end the line nor forge another one
            log.info("%s", json.dumps(line))


def by_a_person(roles: Iterable[str]) -> bool:
    """Tell whether a certificate is a person's, or a tool's, and no service's."""
    return not _PEOPLE.isdisjoint(roles) and _SERVICES.isdisjoint(roles)


def reads(method: str) -> bool:
    """Tell whether a method changes nothing, by its name."""
    return method.startswith("/grpc.") or method.rpartition("/")[2].startswith(READING)


def connector_of(request: Any) -> str | None:
    """Return the connector that a request names: one that is asked for alone, whole, or by name."""
    named = getattr(request, "connector", None)
    named = named or getattr(request, "name", None)
    return str(getattr(named, "name", named)) if named else None


def _text(values: Iterable[bytes]) -> str | None:
    return next((value.decode(errors="replace") for value in values), None)
