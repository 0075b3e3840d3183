package connector

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	connectorv1 "penstock/go/api/connector/v1"
)

// CommitMode is who is the authority for "written up to". The numbers equal
// penstock.api.connector.v1.
type CommitMode int32

// The commit modes.
const (
	// CommitHost: the host's offsets; rows may repeat after a crash (at least once).
	CommitHost = CommitMode(connectorv1.CommitMode_COMMIT_MODE_HOST)
	// CommitSink: the sink stores the token in its own transaction (exactly once).
	CommitSink = CommitMode(connectorv1.CommitMode_COMMIT_MODE_SINK)
	// CommitTwoPhase: prepared state is stored with the offsets, then applied (exactly once).
	CommitTwoPhase = CommitMode(connectorv1.CommitMode_COMMIT_MODE_TWO_PHASE)
	// CommitIdempotent: rows are keyed and replays are harmless (effectively once).
	CommitIdempotent = CommitMode(connectorv1.CommitMode_COMMIT_MODE_IDEMPOTENT)
)

// Refused is a row of a batch that can never be written.
type Refused struct {
	// Row is its index.
	Row int
	// Reason says why.
	Reason *Error
}

// FailedRows is what WriteBatch may return as its error: these rows can never be written, and all
// others are. They go to the dead letters where errors.tolerance allows it, else they end the task.
type FailedRows []Refused

// Error returns the reason of the first row.
func (f FailedRows) Error() string {
	if len(f) == 0 {
		return "no row failed"
	}
	return fmt.Sprintf("%d row(s) cannot be written; the first is row %d: %v", len(f), f[0].Row, f[0].Reason)
}

// Sink writes at least once, or effectively once when its spec says Idempotent. Its methods are
// called by one goroutine at a time. What else a sink may have: RowChecker, SchemaApplier, ColumnDescriber.
type Sink[C any] interface {
	// Init takes the configuration. Comes first, once.
	Init(config C) error
	// Connect opens what is needed to write.
	Connect(ctx context.Context) error
	// WriteBatch writes rows, in order. They are the SDK's: retain what is kept for longer. Rows that
	// can never be written are FailedRows. An error of ClassData does not know which row it is: where
	// such rows are tolerated, halves of the batch are written until the row is found.
	WriteBatch(ctx context.Context, dataset string, rows arrow.RecordBatch) error
	// Flush makes everything written so far durable. The host commits offsets after this.
	Flush(ctx context.Context) error
	// Close lets go of everything. Comes last, once, even after an error.
	Close() error
}

// RowChecker is a sink that can tell which rows can never be written.
type RowChecker interface {
	// CheckBatch returns these rows: they go to the dead letters, the others are written. Pure, and
	// called by several goroutines.
	CheckBatch(dataset string, rows arrow.RecordBatch) []Refused
}

// SchemaApplier is a sink that gets ready for rows of a schema.
type SchemaApplier interface {
	// ApplySchema returns what was done, one line each (for instance the DDL). An error of
	// ClassSchema refuses the schema.
	ApplySchema(dataset string, schema *arrow.Schema, keyColumns []string) ([]string, error)
}

// ColumnDescriber is a sink that reports the columns of a dataset's table or file; schema.evolution compares rows with them.
type ColumnDescriber interface {
	// Columns returns the columns of the place where rows of a dataset go; nil when it is not there.
	Columns(dataset string) (*arrow.Schema, error)
}

// Part names the rows of one attempt at a slot of a transaction.
type Part struct {
	// TxnID is the transaction.
	TxnID uint64
	// Slot of it, and the attempt at that slot.
	Slot, Attempt uint32
	// Dataset of the rows.
	Dataset string
	// Schema of the rows.
	Schema *arrow.Schema
	// TraceParent is the trace that the rows are put in; see the function of that name.
	TraceParent string
}

// Staging is rows of one part that do not count yet. Used by one goroutine at a time.
type Staging interface {
	// Put stages rows; refused ones go to the dead letters.
	Put(rows arrow.RecordBatch) ([]Refused, error)
	// Close ends it: no more rows come.
	Close() error
	// Discard removes it: it does not count. May come before or after Close.
	Discard() error
}

// Txn is a transaction that is being prepared.
type Txn struct {
	// ID is its number, and Epoch the task's epoch.
	ID, Epoch uint64
	// Token is the offsets that it covers; a CommitSink sink stores it with the rows.
	Token []byte
	// Staged is what counts, closed, in the order of the rows.
	Staged []Staging
	// TraceParent is the trace of the micro-batch; see the function of that name.
	TraceParent string
}

// TransactionalSink writes exactly once. Whatever Commit needs goes through the state that Prepare
// returns: after a crash another process gets it with Recover. Stage and the stagings are called by
// several goroutines, all else by one at a time. What else it may have: SchemaApplier, ColumnDescriber,
// Committer, Recoverer, Sweeper.
type TransactionalSink[C any] interface {
	// Init takes the configuration. Comes first, once.
	Init(config C) error
	// Connect opens what is needed to write. A sink that can, refuses lower epochs of the task now.
	Connect(ctx context.Context, taskID string, epoch uint64) error
	// Stage returns a place for the rows of one part. It must not be visible to readers.
	Stage(part Part) (Staging, error)
	// Prepare makes staged rows durable, still invisible, and returns what Commit needs: at most
	// 64 KiB, stored by the host in one write with the offsets.
	Prepare(txn Txn) (state []byte, err error)
	// Commit makes prepared rows visible. Idempotent: it may come again after a crash.
	Commit(txnID, epoch uint64, state []byte) error
	// Close lets go of everything. Comes last, once, even after an error.
	Close() error
}

// Committer is a transactional sink that stores the token itself (CommitSink).
type Committer interface {
	// Committed returns the last transaction stored in the sink, nil for none.
	Committed() (*PreparedTxn, error)
}

// Recoverer is a transactional sink that does something else than Commit after a crash.
type Recoverer interface {
	// Recover applies a prepared transaction again that may not have been applied before a crash.
	Recover(last PreparedTxn) error
}

// Sweeper is a transactional sink that removes what dead attempts and older epochs left behind.
type Sweeper interface {
	// Sweep comes once, after Recover; everything up to this transaction is visible.
	Sweep(doneTxnID uint64) error
}

// SinkSpec says what a sink is. Name and New are needed, everything else has a default.
type SinkSpec[C any] struct {
	// Name is unique in the plugin; what connector.class says in a configuration.
	Name string
	// Title is one line for people, Description is Markdown.
	Title, Description string
	// Aliases are other names that configurations may use.
	Aliases []string
	// Idempotent: writing the same keyed rows again changes nothing.
	Idempotent bool
	// CommitEvery is the wanted time between commits; 0 for as soon as there are rows.
	CommitEvery time.Duration
	// StagingBytes is the most bytes of rows that the SDK keeps for a task until they are prepared;
	// 0 for 512 MiB.
	StagingBytes int64
	// New makes the sink of a task.
	New func() Sink[C]
	// Validate returns what is wrong with values that all have the right type. Pure.
	Validate func(config C) []*Error
	// KeyHints returns how a form shows keys beside the other values, by name; it shows the others
	// as they are. The texts are those of a configuration that may be incomplete and wrong, with
	// defaults; no secret is among them. Pure.
	KeyHints func(values map[string]string) map[string]KeyHint
	// Check tries whether the outside can be reached and allows what is needed.
	Check func(ctx context.Context, config C) error
	// AlterOffsets looks at offsets that a person wants to set while it is stopped, and changes them
	// outside unless it is a dry run. A ConfigError refuses them; else it returns the same
	// partitions, each under its own key, with the offsets that the host is to store: those that are
	// nil are taken away.
	// A partition's key is its topic and number, its offset that of the next row. Idempotent: it may
	// come again. The default has no say in it.
	AlterOffsets func(config C, partitions []Partition, dryRun bool) ([]Partition, error)
	// Apply sets up, changes or removes what the connector owns outside, and returns what was done, one
	// line each. Idempotent. The default owns nothing.
	Apply func(ctx context.Context, config C, change Change[C]) ([]string, error)
}

// TransactionalSpec says what a transactional sink is.
type TransactionalSpec[C any] struct {
	// Name is unique in the plugin; what connector.class says in a configuration.
	Name string
	// Title is one line for people, Description is Markdown.
	Title, Description string
	// Aliases are other names that configurations may use.
	Aliases []string
	// Modes of committing, best first; CommitTwoPhase when empty.
	Modes []CommitMode
	// CommitEvery is the wanted time between commits; 0 for as soon as there are rows.
	CommitEvery time.Duration
	// New makes the sink of a task.
	New func() TransactionalSink[C]
	// Validate returns what is wrong with values that all have the right type. Pure.
	Validate func(config C) []*Error
	// KeyHints returns how a form shows keys beside the other values, by name; it shows the others
	// as they are. The texts are those of a configuration that may be incomplete and wrong, with
	// defaults; no secret is among them. Pure.
	KeyHints func(values map[string]string) map[string]KeyHint
	// Check tries whether the outside can be reached and allows what is needed.
	Check func(ctx context.Context, config C) error
	// AlterOffsets looks at offsets that a person wants to set while it is stopped, and changes them
	// outside unless it is a dry run. A ConfigError refuses them; else it returns the same
	// partitions, each under its own key, with the offsets that the host is to store: those that are
	// nil are taken away.
	// A partition's key is its topic and number, its offset that of the next row. Idempotent: it may
	// come again. The default has no say in it.
	AlterOffsets func(config C, partitions []Partition, dryRun bool) ([]Partition, error)
	// Apply sets up, changes or removes what the connector owns outside, and returns what was done, one
	// line each. Idempotent. The default owns nothing.
	Apply func(ctx context.Context, config C, change Change[C]) ([]string, error)
}
