package connector

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	recordv1 "penstock/go/api/record/v1"
)

// Op is the change that a row stands for, as its column __op says. The numbers equal
// penstock.api.record.v1.
type Op int32

// The changes that rows stand for.
const (
	// OpAppend: a row of its own.
	OpAppend = Op(recordv1.Op_OP_UNSPECIFIED)
	// OpCreate: a row was created.
	OpCreate = Op(recordv1.Op_OP_CREATE)
	// OpUpdate: a row was updated; absent columns are null.
	OpUpdate = Op(recordv1.Op_OP_UPDATE)
	// OpDelete: a row was deleted; key columns are set.
	OpDelete = Op(recordv1.Op_OP_DELETE)
	// OpSnapshot: a row was read by a snapshot.
	OpSnapshot = Op(recordv1.Op_OP_SNAPSHOT)
	// OpUpsert: insert or replace by key.
	OpUpsert = Op(recordv1.Op_OP_UPSERT)
)

// Batch is rows of one dataset and one partition, and the offset after them.
type Batch struct {
	// Rows; may be nil. The SDK releases them.
	Rows arrow.RecordBatch
	// Partition is the key of the partition that they are from; nil when the task has just one.
	Partition Fields
	// Offset is where to go on after these rows. With an offset, the host may commit here; without
	// one, the rows wait for the partition's next batch that has one.
	Offset Fields
	// Dataset is the table, collection or topic.
	Dataset string
	// KeyColumns are the names of the columns that identify a row.
	KeyColumns []string
	// BadRows could not be read.
	BadRows []BadRow
	// AwaitCommit: the source cannot go on before this is committed.
	AwaitCommit bool
	// FinishedPartition: the partition ends here for good.
	FinishedPartition bool
}

// BadRow is a row that could not be read: its bytes as they came, and why.
type BadRow struct {
	// Raw is the bytes.
	Raw []byte
	// Reason says why.
	Reason *Error
}

// Source reads. One task is one Source; its methods are called by one goroutine at a time, in this
// order: Init, Connect, then ReadBatch over and over, and Close at the end, always. Embed Base for
// those that have nothing to do. What else a source may have: Acker, Finisher, CatchesUp, Waiter, Remainer,
// Measurer.
type Source[C any] interface {
	// Init takes the configuration. Comes first, once.
	Init(config C) error
	// Connect opens what is needed to read these partitions from their offsets.
	Connect(ctx context.Context, partitions []Partition) error
	// ReadBatch returns the next rows, or nil when there are none now. May block for a short time;
	// ctx is done when the task ends.
	ReadBatch(ctx context.Context) (*Batch, error)
	// Close lets go of everything. Comes last, once, even after an error.
	Close() error
}

// Acker is a source that prunes or acknowledges upstream.
type Acker interface {
	// Ack learns that all rows up to these offsets are durable: partition id to offset.
	Ack(offsets map[string]Fields) error
}

// Finisher is a bounded source.
type Finisher interface {
	// Finished tells whether it has given all its rows. Asked after a nil batch.
	Finished() bool
}

// CatchesUp is a source without an end that can end a copy. Other sources that are not Bounded are
// refused with until.caught.up.
type CatchesUp interface {
	// CaughtUp tells whether everything was given that was there when the task connected. Asked
	// after each ReadBatch, and only when the user wants an end.
	CaughtUp() bool
}

// Waiter is a source that can block until there is more.
type Waiter interface {
	// Wait blocks until there may be more rows, or until ctx is done: then the task has something
	// else to do. Without it, the SDK waits a little longer each time, up to 100 ms.
	Wait(ctx context.Context) error
}

// Remainer is a source that knows what is left.
type Remainer interface {
	// Remaining returns the bytes and the rows that are left; -1 for unknown.
	Remaining() (bytes, rows int64)
}

// Measurer is a source or a sink that has numbers of itself, which people see: a sink is asked after
// each commit.
type Measurer interface {
	// Metrics returns up to 32 numbers by name: up to 60 lower-case letters, digits and `_`. One that
	// ends with `_total` only grows.
	Metrics() map[string]float64
}

// Base is Init and Close of a connector that has nothing to do there. Embed it.
type Base[C any] struct {
	// Config is the values that the user gave.
	Config C
}

// Init keeps the configuration.
func (b *Base[C]) Init(config C) error {
	b.Config = config
	return nil
}

// Close does nothing.
func (*Base[C]) Close() error { return nil }

// SourceSpec says what a source is. Name and New are needed, everything else has a default.
type SourceSpec[C any] struct {
	// Name is unique in the plugin; what connector.class says in a configuration.
	Name string
	// Title is one line for people, Description is Markdown.
	Title, Description string
	// Aliases are other names that configurations may use.
	Aliases []string
	// Bounded: it ends by itself; its Finished says when.
	Bounded bool
	// NeedsCommit: it prunes or acknowledges upstream. An Acker is taken to.
	NeedsCommit bool
	// NotReplayable: it cannot read the same rows again from any offset that it gave out.
	NotReplayable bool
	// MonitorEvery is the time between two looks at whether Plan gives other partitions; 0: never.
	MonitorEvery time.Duration
	// New makes the source of a task.
	New func() Source[C]
	// Validate returns what is wrong with values that all have the right type. Pure.
	Validate func(config C) []*Error
	// KeyHints returns how a form shows keys beside the other values, by name; it shows the others
	// as they are. The texts are those of a configuration that may be incomplete and wrong, with
	// defaults; no secret is among them. Pure.
	KeyHints func(values map[string]string) map[string]KeyHint
	// Check tries whether the outside can be reached and allows what is needed.
	Check func(ctx context.Context, config C) error
	// Plan returns the partitions to read; the host spreads them over at most maxTasks tasks. It
	// gives the same partitions for the same configuration. known are those with stored offsets.
	// The default is one partition.
	Plan func(config C, maxTasks int, known []Partition) ([]Partition, error)
	// AlterOffsets looks at offsets that a person wants to set while it is stopped, and changes them
	// outside unless it is a dry run. A ConfigError refuses them; else it returns the same
	// partitions, each under its own key, with the offsets that the host is to store: those that are
	// nil are taken away.
	// Idempotent: it may come again. The default has no say in it.
	AlterOffsets func(config C, partitions []Partition, dryRun bool) ([]Partition, error)
	// Apply sets up, changes or removes what the connector owns outside, and returns what was done, one
	// line each. Idempotent. The default owns nothing.
	Apply func(ctx context.Context, config C, change Change[C]) ([]string, error)
	// ParseRows reads rows again that could not be read (Batch.BadRows), as they were or as a user
	// corrected them: it returns a result for each, in their order. An error fails all of them. It
	// changes nothing outside. Without it, such rows cannot be replayed.
	ParseRows func(ctx context.Context, config C, rows []RawRow) ([]ParsedRow, error)
	// Monitored tells for which configurations there is a monitor. The default: when there is one.
	Monitored func(config C, maxTasks int) bool
	// Monitor watches for partitions that appear and vanish, until Monitor.Wait says that it is
	// over. The default compares, each MonitorEvery, what Plan gives with the plan in force.
	Monitor func(config C, monitor *Monitor) error
}
