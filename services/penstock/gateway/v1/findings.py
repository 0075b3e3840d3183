"""Findings as answers under `/v1` have them."""

from __future__ import annotations

from typing import Any

from penstock.gateway.failures import body_of
from penstock.model.errors import Diagnostic


def finding(found: Diagnostic) -> dict[str, Any]:
    """Return a finding as answers have it."""
    body = body_of(found, 0)
    del body["error_code"]
    return {
        **body,
        "severity": found.severity.name.lower(),
        "class": found.error_class.name.lower(),
    }
