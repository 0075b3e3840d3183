"""The transform chain: from Kafka Connect's keys to columns, and to Arrow kernels of the same
meaning.

Pure: no Spark, and no I/O but that of the files of Python functions. The engine runs what comes out
of here.

- `building`: `build_chain(config)` checks a configuration, `chain_warnings` finds keys without
  effect; `chain`: `Chain.compile` fits it to one dataset's schema
- `members`, `registry`: which keys are whose, and which types there are under which names
- `change`: what a transform answers, and how a predicate limits it to some rows; `row`, `part`,
  `field_path`: columns, keys and nested fields
- one transform per file: Kafka Connect's (`cast` to `value_to_key`; `route_by_regex`,
  `route_by_timestamp`), `project` and `select` of our own, RocketMQ Connect's in `rocketmq`, rows
  out of envelopes in `envelopes`, Python functions in `functions`; `predicate`: the conditions
  under which they apply
- `java_cast`, `java_date_format`, `java_regex`: what Java's conversions, formats and regular
  expressions mean here, as far as it is the same; `headers`: headers as columns
- `plugin_step`: a transform that a plugin serves; what follows it is fitted when the plan is made
- `sql`: quoting · `tokens`, `guard`: what a user's SQL expression may contain; `sql_functions`,
  `call_arguments`: the functions that it may call, and the arguments of some of them
- `condition`, `filter_kernel`, `column_kernel`, `operand`: rows and columns made by Arrow, without
  the JVM
"""

from penstock.transform.chain import Chain, Compiled
from penstock.transform.configuration import Outside, build_chain, chain_warnings

__all__ = ["Chain", "Compiled", "Outside", "build_chain", "chain_warnings"]
