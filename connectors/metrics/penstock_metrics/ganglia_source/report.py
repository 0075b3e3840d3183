"""The XML that gmond and gmetad answer, as samples. Pure.

It comes from the network, so no entity may be declared in it (they can grow without bound), and
nothing outside of it is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from penstock_connector import BadRow, DataError
from penstock_metrics.rows import to_rows
from penstock_metrics.scrape import labels_with

_ROOT: Final = "GANGLIA_XML"
_MAX_DEPTH: Final = 32
"""Elements in each other; grids of gmetad may contain grids."""

_MAX_DEFAULT: Final = 64
"""Characters of an attribute that the DTD adds to each element; gmond's longest is `gmond`."""

_MAX_SECONDS: Final = 10**9
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_:]")
_SHOWN: Final = 200


class NotGanglia(ValueError):  # noqa: N818 - what an answer is, not what went wrong
    """An answer is none of Ganglia's. `refused`: it has what can do harm."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class ReportRules:
    """What becomes of metrics.

    Attributes:
        stale_after: Times `TMAX` after which a metric or a host is stale; 0: never.
        honor_timestamps: The time is that of the report.
        prometheus_names: Names are such that Prometheus takes them.
    """

    stale_after: float
    honor_timestamps: bool
    prometheus_names: bool


@dataclass(slots=True)
class Report:
    """Samples of one answer: name, labels (a place in `labels`), value, type and age (in seconds)
    of each.

    Attributes:
        bad: Metrics that are no samples.
        stale: How many metrics were stale.
    """

    names: list[str] = field(default_factory=list)
    labels: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    stale: int = 0

    def add(
        self, name: str, labels: Mapping[str, str], value: float, *, kind: str, age: float
    ) -> None:
        """Add a sample."""
        pairs = tuple(labels.items())
        self.names.append(name)
        self.codes.append(self.labels.setdefault(pairs, len(self.labels)))
        self.values.append(value)
        self.types.append(kind)
        self.ages.append(age)

    def rows(self, own: Mapping[str, str], at_ms: int, *, honor_timestamps: bool) -> pa.RecordBatch:
        """Return the samples as rows, with our labels."""
        times = np.full(len(self.names), at_ms, np.int64)
        if honor_timestamps:
            times -= np.array(self.ages, np.int64) * 1000
        return to_rows(
            pa.array(self.names, pa.string()),
            [labels_with(own, dict(pairs)) for pairs in self.labels] or [{}],
            np.array(self.codes, np.int64),
            np.array(self.values, np.float64),
            times,
            pa.array(self.types, pa.string()),
        )


def parse_report(body: bytes, rules: ReportRules) -> Report:
    """Return the samples of an answer.

    Raises:
        NotGanglia: It is no XML, not whole, not of Ganglia, or declares entities.
    """
    reader = _Reader(rules)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.EntityDeclHandler = reader.refuse_entity
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.AttlistDeclHandler = reader.attribute_list
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise NotGanglia(
            f"{expat.ErrorString(error.code)} in line {error.lineno}, column {error.offset + 1}"
        ) from None
    return reader.report


class _Reader:
    """Takes the elements of an answer."""

    def __init__(self, rules: ReportRules) -> None:
        self._rules = rules
        self.report = Report()
        self._depth = 0
        self._grids: list[str] = []
        self._cluster = self._group = ""
        self._host: dict[str, str] = {}
        self._host_is_stale = False
        self._metric: dict[str, str] | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""
        self._depth += 1
        if self._depth == 1 and name != _ROOT:
            raise NotGanglia(f"its first element is {name[:40]!r}, not {_ROOT!r}")
        if self._depth > _MAX_DEPTH:
            raise NotGanglia(f"it has more than {_MAX_DEPTH} elements in each other", refused=True)
        match name:
            case "GRID":
                self._grids.append(attributes.get("NAME", ""))
            case "CLUSTER":
                self._cluster = attributes.get("NAME", "")
            case "HOST":
                self._begin_host(attributes)
            case "METRIC":
                self._metric, self._group = attributes, ""
            case "EXTRA_ELEMENT" if self._metric is not None and attributes.get("NAME") == "GROUP":
                self._group = self._group or attributes.get("VAL", "")

    def end(self, name: str) -> None:
        """Take the end of an element."""
        self._depth -= 1
        match name:
            case "GRID":
                self._grids.pop()
            case "METRIC" if self._metric is not None:
                self._end_metric(self._metric)
                self._metric = None

    def doctype(self, name: str, system: str | None, public: str | None, _: int) -> None:
        """Refuse a DTD that is elsewhere."""
        if system or public:
            raise NotGanglia(f"its DTD {str(system or public)[:80]!r} is elsewhere", refused=True)

    def refuse_entity(self, name: str, *_: Any) -> None:
        """Refuse an entity."""
        raise NotGanglia(f"it declares the entity {name[:40]!r}", refused=True)

    def attribute_list(
        self, element: str, attribute: str, _: str, default: str | None, __: int
    ) -> None:
        """Refuse a default that each element would get."""
        if default is not None and len(default) > _MAX_DEFAULT:
            raise NotGanglia(
                f"each {element[:40]!r} gets {len(default)} characters as {attribute[:40]!r}",
                refused=True,
            )

    def _labels(self) -> dict[str, str]:
        found = {"cluster": self._cluster, "host": self._host.get("NAME", "")}
        if self._grids:
            found["grid"] = self._grids[-1]
        return found

    def _begin_host(self, attributes: dict[str, str]) -> None:
        self._host = attributes
        try:
            self._host_is_stale = self._is_stale(attributes)
        except ValueError as error:
            self._host_is_stale = True
            self.report.bad.append(_bad_row(attributes, str(error)))
            return
        up = float(not self._host_is_stale)
        self.report.add("ganglia_host_up", self._labels(), up, kind="gauge", age=0)

    def _end_metric(self, metric: dict[str, str]) -> None:
        if metric.get("TYPE", "string") == "string":
            return
        try:
            if self._is_stale(metric) or self._host_is_stale:
                self.report.stale += 1
                return
            name, value = self._name(metric), _number(metric.get("VAL", ""))
        except ValueError as error:
            self.report.bad.append(_bad_row(self._whole(metric), str(error)))
            return
        labels = self._labels()
        labels["unit"], labels["group"] = metric.get("UNITS", "").strip(), self._group
        kind = "counter" if metric.get("SLOPE") == "positive" else "gauge"
        self.report.add(name, labels, value, kind=kind, age=_seconds(metric, "TN"))

    def _name(self, metric: Mapping[str, str]) -> str:
        name = metric.get("NAME", "")
        if not name:
            raise ValueError("it has no name")
        if not self._rules.prometheus_names:
            return name
        name = _UNFIT.sub("_", name)
        return f"_{name}" if name[:1].isdigit() else name

    def _whole(self, metric: Mapping[str, str]) -> dict[str, str]:
        """Return a metric with where it is from."""
        return {"CLUSTER": self._cluster, "HOST": self._host.get("NAME", ""), **metric}

    def _is_stale(self, attributes: Mapping[str, str]) -> bool:
        age, most = _seconds(attributes, "TN"), _seconds(attributes, "TMAX")
        return bool(self._rules.stale_after and most) and age > most * self._rules.stale_after


def _number(text: str) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        return float(text)
    except ValueError:
        raise ValueError(f"its value {text[:40]!r} is no number") from None


def _seconds(attributes: Mapping[str, str], name: str) -> float:
    text = attributes.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _MAX_SECONDS:
        raise ValueError(f"its {name} {text[:40]!r} is no number of seconds")
    return float(text)


def _bad_row(source: Mapping[str, str], why: str) -> BadRow:
    raw = json.dumps(source, ensure_ascii=False)
    error = DataError(
        "ganglia.bad_metric", f"{raw[:_SHOWN]}: {why}", fix="Correct what reports the metric."
    )
    return BadRow(raw.encode(), error)
