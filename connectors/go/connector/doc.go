// Package connector is how connectors for Penstock are written in Go.
//
// A connector is a Source that reads, or a Sink or TransactionalSink that writes, and a spec that
// says its name and how to make one. main calls Serve with the specs. The SDK does the rest: the
// process and its handshake, gRPC, Arrow, buffering within the host's credit, fencing, drains,
// heartbeats. The README is a connector in ten minutes. From the outside in:
//
//   - source.go, sink.go: what an author writes; rows.go: structs as Arrow columns
//   - config.go, keys.go, units.go, nearest.go: typed configuration with words for people
//   - errors.go, failures.go: what users can meet; status.go: the one place of gRPC statuses;
//     trace.go: the trace that a call is a part of
//   - values.go, canonical.go, partition.go: keys and offsets, and their wire forms
//   - serve.go, handshake.go, server.go, logs.go: the process; registry.go, specs.go, control.go:
//     what it has
//   - reading.go, pump.go, emit.go, waiting.go, orders.go: a task of a source; credit.go,
//     checkpoints.go, encoder.go: its parts
//   - writing.go, committer.go, staging.go, simple.go: a task of a sink
//   - frames.go, schemas.go, codec.go: rows on the wire; fencing.go: who owns a task
//   - monitor.go, monitoring.go: watching for other partitions
package connector
