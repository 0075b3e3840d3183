"""`/v1`: what Kafka Connect's REST API has no words for. Each is a call of gRPC with a path.

- `configurations`  what a connector is, its versions, what differs, the way back
- `checking`        a configuration, before it is stored
- `times`           the offsets that a partition had, and the way back to a time
- `looking`         live rows
- `letters`         dead letters; `replaying` sends their rows on their way again
- `numbers`         how everything is, with its numbers
- `machines`        the workers, and emptying one
- `lines`           answers that go on, a JSON object on each line
"""
