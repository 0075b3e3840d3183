"""The transform chain: from Kafka Connect's keys to columns, and to Arrow kernels of the same
meaning.

Pure: no Spark, and no I/O but that of the files of Python functions. The engine runs what comes out
of here.

- `configuration`: `build_chain(config)` checks a configuration, `chain_warnings` finds keys without
  effect; `registry`: which types there are under which names; `chain`: `Chain.compile` fits a chain
  to one dataset's schema
- `kafka`, `rocketmq`, `envelopes`: one transform per file; `functions`: Python functions;
  `plugin_step`: a transform that a plugin serves; `predicate`: when a transform applies
- `change`: what a transform answers, and how a predicate limits it to some rows; `row`, `parts`:
  columns, keys and nested fields; `headers`: headers as columns; `column_kernel`: columns by Arrow
- `sql`: what a user's SQL may contain (`guard`, `allowed_functions`, `call_arguments`), and what
  Arrow computes instead of the JVM (`condition`, `condition_kernel`)
- `java`: what Java's conversions, formats and regular expressions mean here
"""

from penstock.transform.chain import Chain, Compiled
from penstock.transform.configuration import Outside, build_chain, chain_warnings

__all__ = ["Chain", "Compiled", "Outside", "build_chain", "chain_warnings"]
