"""The worker service: it runs tasks, and answers what only a machine with the plugins can.

A task is one loop: **read end → transform chain → write end → commit offsets**. Its driver, here,
handles control only; rows go from end to end inside a Spark job and never pass through this
process, but for the few that are shown to a person who looks.

- `ports`      what a task needs of its two ends and of the engine
- `settings`   the framework's own keys of a connector
- `batching`   pure: which announced batches make the next micro-batch, and when
- `pace`       pure: how many rows it may have, so that a slow sink commits often
- `slots`      pure: how a micro-batch is divided among Spark's slots
- `execution`  one micro-batch through the engine, with bounded retries
- `looking`    who looks at live rows, and what each has seen
- `sampling`   takes samples for them: one more small job beside a micro-batch
- `letters`    bad rows: how many are tolerated; `posting` and `lettered` put letters of them where
  they go, `letter_reading` shows them, `replaying` reads them as the rows that they were
- `commit`     the order of a commit: sink durable → offset durable → source told
- `telling`    tells a source what is durable, until it confirms what it waits for
- `run`        one life of a task, from opening its ends to closing them
- `task`       a task over its lives
- `monitor`    the monitor of a connector: wishes for another plan; `topic_watch` is that of a sink
- `life`       what both have: restarts with back-off, status
- `assigned`   what an assignment names
- `holdings`   the tasks and monitors that this worker holds, made equal to its newest assignment
- `session`    reports to the leading scheduler, and the assignments that come back
- `ends`       which ends a connector's kind has
- `making`     makes tasks and monitors
- `asked`      what a worker answers beside its tasks: `validating` (and checks of connections),
  `planning` (splitting a connector into tasks), `rehearsal`, `altering` (offsets that people
  set), `letter_reading`
- `numbers`    what a task counts and measures; `metering` sends it to a collector
- `keys`       the keys of a worker's process; `machine` what it runs with
- `checking`   what is found about a configuration; `carried`: keys of Kafka Connect that have no
  effect here, `overrides`: which settings of its clients a connector may bring
- `reach`      what connectors may reach, by rules of the node; `reach_rules`: topics that they
  name; `bounds`: these and `overrides` together
- `builtin`    what needs no plugin: transforms, predicates, converters
- `hosting`    a worker with its engine, plugins and topics
- `service`    the gRPC surface, thin
"""
