"""Findings without the values that came by reference."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.errors import Diagnostic
from penstock.telemetry import masked


def hidden(found: Diagnostic) -> Diagnostic:
    """Return a finding without the values of references that it quotes (invariant 9)."""
    return replace(found, message=masked(found.message), detail=masked(found.detail))
