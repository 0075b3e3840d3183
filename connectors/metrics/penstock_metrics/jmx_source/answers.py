"""What Jolokia answers, as samples. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock_connector import ConfigError, DataError
from penstock_metrics.jmx_source.mbeans import MBeanRead, Path, parse_object_name
from penstock_metrics.rows import to_rows
from penstock_metrics.scrape import labels_with

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_:]")
_UNFIT_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")
_MAX_DEPTH: Final = 8
"""Levels of a value that are looked into; JMX's own types have at most three."""

_EXCERPT: Final = 200
_OK: Final = 200
_GONE: Final = 404
_NO_INSTANCE: Final = "InstanceNotFoundException"


@dataclass(slots=True)
class Samples:
    """Samples of one answer, and what of it is none.

    Attributes:
        names: Name of each sample.
        codes: Its labels: a place in `labels`.
        values: Its value.
        labels: Labels of the MBeans.
        problems: Of each read that gave nothing, or not all that it names: why.
    """

    names: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    labels: list[dict[str, str]] = field(default_factory=list)
    problems: dict[str, ConfigError] = field(default_factory=dict)

    def rows(self, own: Mapping[str, str], at_ms: int) -> pa.RecordBatch:
        """Return them as rows of a time, with our labels."""
        return to_rows(
            pa.array(self.names, pa.string()),
            [labels_with(own, one) for one in self.labels] or [{}],
            np.array(self.codes, np.int64),
            np.array(self.values, np.float64),
            np.full(len(self.names), at_ms, np.int64),
            pa.array(["unknown"] * len(self.names), pa.string()),
        )


def parse_answer(
    body: bytes, reads: Sequence[MBeanRead], shown: str, *, prometheus_names: bool
) -> Samples:
    """Return the samples of an answer to a bulk request.

    Raises:
        DataError: `jmx.not_jolokia`.
    """
    found = Samples()
    for read, answer in zip(reads, _answers(body, len(reads), shown), strict=True):
        status, value = answer.get("status"), answer.get("value")
        if status != _OK or not isinstance(value, dict) or _is_gone(value):
            found.problems[read.name] = _refused(read, answer, shown)
            continue
        missing = dict.fromkeys(read.wanted, "no MBean has it")
        count = len(found.names)
        for name, attributes in (value if read.is_pattern else {read.name: value}).items():
            if isinstance(attributes, dict):
                _add(found, name, attributes, read, missing, prometheus_names=prometheus_names)
        if missing or len(found.names) == count:
            found.problems[read.name] = _without_samples(read, missing, shown)
    return found


def _add(
    found: Samples,
    name: str,
    attributes: Mapping[str, Any],
    read: MBeanRead,
    missing: dict[str, str],
    *,
    prometheus_names: bool,
) -> None:
    """Add the samples of one MBean; `missing` keeps the attributes without one, and why."""
    try:
        domain, properties = parse_object_name(name)
    except ValueError:
        return
    if prometheus_names:
        properties = {_label(key): text for key, text in properties.items()}
    found.labels.append(properties)
    for attribute, value in attributes.items():
        if value is None:  # what has no value now; so Jolokia writes NaN and infinities, too
            missing.pop(attribute, None)
        if (why := _error_of(value)) and attribute in missing:
            missing[attribute] = why
        for path, number in _numbers(value, ()):
            wanted = read.wanted.get(attribute, ((),))
            if any(path[: len(one)] == one for one in wanted):
                found.names.append(
                    _name((domain, attribute, *path), prometheus_names=prometheus_names)
                )
                found.codes.append(len(found.labels) - 1)
                found.values.append(number)
                missing.pop(attribute, None)


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, float]]:
    """Yield the numbers in a value, each with the way to it. Texts and lists have none."""
    match value:
        case bool() | int() | float():
            try:
                yield path, float(value)
            except OverflowError:  # of a BigInteger
                return
        case dict() if len(path) < _MAX_DEPTH and not _error_of(value):
            for key, inner in value.items():
                yield from _numbers(inner, (*path, key))


def _error_of(value: Any) -> str:
    """Return why an attribute could not be read, as Jolokia 2 or 1 says it; empty if it could."""
    if isinstance(value, dict) and value.get(".error") is True:
        return str(value.get("error", ""))[:_EXCERPT] or "it cannot be read"
    if isinstance(value, str) and value.startswith("ERROR: "):
        return value[:_EXCERPT]
    return ""


def _is_gone(value: Any) -> bool:
    """Return whether attributes cannot be read because there is no such MBean."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            _error_of(one)
            and _NO_INSTANCE in str(one.get("error_type") if isinstance(one, dict) else one)
            for one in value.values()
        )
    )


def _answers(body: bytes, count: int, shown: str) -> list[dict[str, Any]]:
    why = ""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found, why = None, "it is no JSON"
    if isinstance(found, dict):
        why = f"it says {str(found.get('error', ''))[:_EXCERPT]!r}"
    elif not why and (
        not isinstance(found, list)
        or len(found) != count
        or not all(isinstance(one, dict) for one in found)
    ):
        why = f"it is no list of {count} answers"
    if why:
        raise DataError(
            "jmx.not_jolokia",
            f"{shown}: its answer is not Jolokia's: {why}",
            fix="Correct the path in `targets`, or `jolokia.path`.",
        )
    answers: list[dict[str, Any]] = found
    return answers


def _refused(read: MBeanRead, answer: Mapping[str, Any], shown: str) -> ConfigError:
    said = str(answer.get("error", "no value"))[:_EXCERPT]
    if answer.get("status") == _GONE or _is_gone(answer.get("value")):
        return ConfigError(
            "jmx.no_mbean",
            f"{shown}: there is no MBean {read.name!r}",
            fix="Correct `mbeans`; an MBean may come later, too.",
            config_path="mbeans",
        )
    return ConfigError(
        "jmx.read_failed",
        f"{shown}: {read.name!r} cannot be read: {said}",
        fix="Correct `mbeans`, or let Jolokia's access policy allow it.",
        config_path="mbeans",
    )


def _without_samples(read: MBeanRead, missing: Mapping[str, str], shown: str) -> ConfigError:
    named = [f"{name} ({why})" for name, why in missing.items()]
    what = f"of {', '.join(named)}" if named else "of any attribute"
    return ConfigError(
        "jmx.no_sample",
        f"{shown}: {read.name!r} gives no number {what}"[: 2 * _EXCERPT],
        fix="Correct `mbeans`: name attributes that are numbers, or have numbers in them.",
        config_path="mbeans",
    )


def _name(parts: Path, *, prometheus_names: bool) -> str:
    if not prometheus_names:
        return ".".join(parts)
    name = _UNFIT.sub("_", "_".join(parts))
    return f"_{name}" if name[:1].isdigit() else name


def _label(name: str) -> str:
    name = _UNFIT_LABEL.sub("_", name)
    return f"_{name}" if name[:1].isdigit() else name
