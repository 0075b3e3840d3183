"""The transform chain: from Kafka Connect's keys to columns, and to Arrow kernels of the same
meaning.

Pure: no Spark, no I/O. The engine runs what comes out of here.

- `chain`: `build_chain(config)` checks a configuration; `Chain.compile` fits it to one dataset's
schema
- `members`, `registry`: which keys are whose, and which types there are under which names
- `change`: what a transform answers, and how a predicate limits it to some rows; `row`, `part`:
columns
- one transform per file: `filter`, `insert_field`, `replace_field`, `route_by_regex`, `project`;
  `predicate`: the conditions under which they apply
- `sql`: quoting · `tokens`, `guard`, `forbidden`: what a user's SQL expression may contain
- `condition`, `filter_kernel`, `column_kernel`: rows and columns made by Arrow, without the JVM
- `java_regex`: Java's regular expressions, as far as they are the same here
"""

from penstock.transform.chain import Chain, Compiled, build_chain

__all__ = ["Chain", "Compiled", "build_chain"]
