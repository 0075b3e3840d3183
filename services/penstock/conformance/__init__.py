"""The conformance kit: is a plugin, in whatever language, what the protocol asks for?

From the outside in:

- `run`: every case against every connector; `report`: a table, JSON, the file that is kept
- `cases`: what is asked, read from `connectors/spec/cases.toml`; `declared`: how a connector is
  driven, read from its author's `conformance.toml`
- `checks/`: one function a case, in files by what they look at
- `bench`: what a case has at hand; `world`: a folder and a name of its own for each trial
- `reading`, `writing`: a task of a source, of a sink, as a host and its executors hold it
- `process`, `calls`, `rows`, `seen`, `held`: a bare process; calls with deadlines; rows as they
  are compared; what a sink made visible; what a process keeps open
- `verdict`: what a case may come to

The kit is rude and sees everything, which a host is not and does not: it has the host's launch and
handshake, and nothing else of it.
"""

from penstock.conformance.cases import Case, Spec, load
from penstock.conformance.declared import Declaration, Declared, read_declaration
from penstock.conformance.report import as_json, kept, print_table, summary
from penstock.conformance.run import Subject, Watch, run_cases
from penstock.conformance.verdict import Outcome, Result

__all__ = [
    "Case",
    "Declaration",
    "Declared",
    "Outcome",
    "Result",
    "Spec",
    "Subject",
    "Watch",
    "as_json",
    "kept",
    "load",
    "print_table",
    "read_declaration",
    "run_cases",
    "summary",
]
