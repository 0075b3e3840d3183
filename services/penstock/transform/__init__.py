"""The transform chain: compiles Kafka Connect's keys into SQL expressions and equal Arrow kernels.

Pure: no Spark, and no I/O except for the files of Python functions. The engine runs the steps that
a chain returns.

- `configuration`: `build_chain` builds a chain and reports all errors, `find_chain_warnings` finds
  keys without effect; `registry`: all types of transforms and predicates by name
- `chain`: `Chain.compile` resolves a chain for one schema of a dataset; transforms of plugins
- `kafka`, `rocketmq`, `envelopes`: the transforms; `functions`: Python functions of users;
  `predicate`: to which datasets or rows a transform applies
- `change`: the result of a transform for one dataset, and its limitation to some rows
- `row`, `row_parts`: columns, value and key, nested fields; `headers`: headers, as SQL and by Arrow
- `defaults`: defaults of Kafka Connect's schemas, in place of nulls
- `column_kernel`: columns computed by Arrow
- `sql`: checks of users' SQL, and conditions computed by Arrow
- `java`: Java's conversions, date formats and regular expressions, as SQL and by Arrow
"""
