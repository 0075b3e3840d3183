"""The conformance kit: tests whether a plugin, in any language, keeps the protocol.

- `runner`       runs every case against the process and every connector
- `results`      outcomes; as a table, as JSON, as the record in a plugin's folder
- `cases`        the specification, from `connectors/spec/cases.toml`
- `declaration`  the author's `conformance.toml`: how to configure and drive a connector
- `checks/`      the check of each case
- `bench`        what a check uses: plugin processes, sandboxes, a baseline
- `sandbox`      a folder and a unique name for each trial
- `source_task`, `sink_task`    a task, from the side of the host and its executors
- `sink_trial`   transactions of a sink, and the rows that they make visible
- `rows`         encodings, comparison and generation of rows
- `process`, `calls`    a plugin process without a guard; gRPC calls with timeouts

The kit breaks the protocol on purpose and inspects the process from outside. It shares the launch
and the handshake with the host, and nothing else.
"""

from penstock_kit.conformance.cases import Case, Spec, load_spec
from penstock_kit.conformance.declaration import ConnectorDeclaration, Declaration, read_declaration
from penstock_kit.conformance.results import (
    Outcome,
    Result,
    as_json,
    format_record,
    print_results,
    summary,
)
from penstock_kit.conformance.runner import RunObserver, Subject, run_cases

__all__ = [
    "Case",
    "ConnectorDeclaration",
    "Declaration",
    "Outcome",
    "Result",
    "RunObserver",
    "Spec",
    "Subject",
    "as_json",
    "format_record",
    "load_spec",
    "print_results",
    "read_declaration",
    "run_cases",
    "summary",
]
