"""The `penstock` command. `__main__` picks the verb; a verb has the file of its name.

- `__main__`        command line: verbs, errors, exit codes
- `errors`          exit codes, and how errors are printed
- `output`          values as a table, JSON or YAML
- `progress`        status lines and progress bars on a terminal
- `process`         processes that host services: logs, signals, a new process after a lost JVM

Verbs that run something here:

- `run`, `dev`      one pipeline file until it ends; again after each change
- `test`            the `tests:` of pipeline files
- `standalone`      all services in one process
- `service`         `config`, `offset`, `scheduler`, `worker`, `gateway`: one service of a cluster
- `cluster`         a whole cluster on this machine
- `quickstart`      a first pipeline on real data
- `doctor`          what this machine lacks; `doctor_config` checks what a file of keys names

Verbs that call a gateway:

- `gateway_client`  requests, and their errors as the product's own
- `gateway_options` `--server`, `--ca`, `-o`, names that shells complete, verbs below a noun
- `connector`, `offsets`, `workers`, `loggers`, `dlq`   nouns with verbs
- `apply`           `plan` and `apply`: connectors as files, which `connector_files` finds
- `migration`       `import` and `export`: connectors of Kafka Connect; `migration_plan` decides,
                    `kafka_connect_offsets` translates, `kafka_connect` sends requests there
- `inspect`, `logs`, `top`    live rows, log lines, rates

Verbs for authors of plugins and for shells:

- `plugin`          `plugins`, and `plugin list|run|seal`
- `plugin_new`      `plugin new`: a project from a template
- `plugin_test`     `plugin test`: the conformance kit
- `password`        the hash of a password
- `completion`      completion for shells

To add a verb: write `FILE.py` with `describe(parser, name)`, which sets `verb` to a function that
takes the arguments and returns the exit code; add it to `VERBS` in `__main__`.

Exit codes: 0 done · 1 the work failed · 2 the configuration or the command line is wrong · 3 there
are changes to make (`plan --exit-code`) · 130 interrupted · 141 the reader of the output is gone.
"""
