"""The check of each case: importing this package registers all of them in `CHECKS`.

- `plugin_process`  how a process starts, ends and describes itself
- `configuration`   validation, connection check, datasets, plan, secrets; of any connector
- `raw_rows`        single rows that a source reads again from their bytes
- `source_reads`    frames, limits and control of a source
- `source_resumes`  a source after a commit, a crash or a new owner
- `sink_writes`     rows, schemas and transactions of a sink
- `sink_recovery`   a sink after a crash, a new owner or a lost host

To add a case: add it to `connectors/spec/cases.toml` and to `connectors/README.md`, write its check
here, and a plugin that breaks it in `tests/unit/conformance/plugins/rude.py`.
"""

from penstock_kit.conformance.bench import CHECKS
from penstock_kit.conformance.checks import (
    configuration,
    plugin_process,
    raw_rows,
    sink_recovery,
    sink_writes,
    source_reads,
    source_resumes,
)

__all__ = [
    "CHECKS",
    "configuration",
    "plugin_process",
    "raw_rows",
    "sink_recovery",
    "sink_writes",
    "source_reads",
    "source_resumes",
]
