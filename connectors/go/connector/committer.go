package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

const (
	// putsEndWithin is the time that Prepare waits for a named put to end. The host names a slot
	// only when its put was answered, so this covers the closing of staged files; longer would hide
	// a hung staging.
	putsEndWithin = 30 * time.Second
	// stateMost is the bytes of prepared state (rule R12): it is stored in one write with the
	// offsets.
	stateMost = 64 << 10
)

// stagedSchema is a schema of a write stream.
type stagedSchema struct {
	dataset string
	rows    decoder
}

// committer runs one task of a sink: its transactions, from Open to Close. Control calls come from
// the goroutine of the control stream, puts from their own.
type committer struct {
	taskID  string
	epochNo uint64
	name    string
	sink    transactional
	ctx     context.Context
	stopNow context.CancelFunc
	over    chan struct{}
	stopped chan struct{}

	mu       sync.Mutex
	schemas  map[uint32]stagedSchema
	stages   *stages
	prepared map[uint64][]byte
	failed   map[uint64]rowsFailed // not named yet: an answer has failedMost at most
	failure  *Error
	closed   bool
}

func newCommitter(sink transactional, name, taskID string, epoch uint64) *committer {
	c := &committer{
		taskID: taskID, epochNo: epoch, name: name, sink: sink, over: make(chan struct{}),
		stopped: make(chan struct{}), schemas: map[uint32]stagedSchema{}, stages: newStages(),
		prepared: map[uint64][]byte{}, failed: map[uint64]rowsFailed{},
	}
	c.ctx, c.stopNow = context.WithCancel(context.Background())
	return c
}

func (c *committer) epoch() uint64          { return c.epochNo }
func (c *committer) ended() <-chan struct{} { return c.over }

// open opens the sink. A transaction that may not have been applied is applied again, before any
// new row comes (rule R12). Returns the last transaction of a sink that stores it.
func (c *committer) open(init func() error, order *connectorv1.WriteOpen, modes []CommitMode) (*PreparedTxn, error) {
	if err := c.run("Init", init); err != nil {
		return nil, err
	}
	err := c.run("Connect", func() error { return c.sink.Connect(c.ctx, c.taskID, c.epochNo) })
	if err != nil {
		return nil, err
	}
	if simple, ok := c.sink.(*simpleSink); ok {
		simple.tolerates = order.ToleratesFailedRows
	}
	last := preparedFromProto(order.LastPrepared)
	done := uint64(0)
	if last != nil {
		done = last.TxnID
		if err := c.recover(*last, order.Recover); err != nil {
			return nil, err
		}
	}
	committed, err := c.committed(modes)
	if err != nil {
		return nil, err
	}
	if committed != nil {
		done = max(done, committed.TxnID)
	}
	c.stages.startAfter(done)
	if sweeper, ok := ability[Sweeper](c.sink); ok {
		return committed, c.run("Sweep", func() error { return sweeper.Sweep(done) })
	}
	return committed, nil
}

func (c *committer) recover(last PreparedTxn, wanted bool) error {
	if !wanted {
		return nil
	}
	return c.run("Recover", func() error {
		if recoverer, ok := ability[Recoverer](c.sink); ok {
			return recoverer.Recover(last)
		}
		return c.sink.Commit(last.TxnID, last.Epoch, last.State)
	})
}

func (c *committer) committed(modes []CommitMode) (last *PreparedTxn, err error) {
	keeper, ok := ability[Committer](c.sink)
	for _, mode := range modes {
		if ok && mode == CommitSink {
			err = c.run("Committed", func() (err error) {
				last, err = keeper.Committed()
				return err
			})
		}
	}
	return last, err
}

// run runs a method of the author; its errors name it. Nothing runs after a newer owner came.
func (c *committer) run(stage string, method func() error) error {
	c.mu.Lock()
	failure, closed := c.failure, c.closed
	c.mu.Unlock()
	switch {
	case failure != nil:
		return failure
	case closed:
		return FencedErrorf("task.closed", "the task is closed")
	}
	return c.runLast(stage, method)
}

// runLast runs a method of the author, also at the end.
func (c *committer) runLast(stage string, method func() error) error {
	if failure := guard(c.name+"."+stage, method); failure != nil {
		return failure
	}
	return nil
}

// describe returns the columns of the table or file that a dataset is written to.
func (c *committer) describe(request *connectorv1.DescribeDataset) (*connectorv1.DatasetDescribed, error) {
	described := &connectorv1.DatasetDescribed{RequestId: request.RequestId}
	describer, ok := ability[ColumnDescriber](c.sink)
	if !ok {
		return described, nil
	}
	err := c.run("Columns", func() error {
		columns, err := describer.Columns(request.Dataset)
		if err == nil && columns != nil {
			described.ArrowSchema, err = encodeSchema(columns)
		}
		return err
	})
	return described, err
}

// applySchema gets ready for rows of a schema; a refusal is an answer, not the end of the task.
func (c *committer) applySchema(schema *recordv1.Schema) (*connectorv1.SchemaApplied, error) {
	decoded, err := decodeSchema(schema.ArrowSchema)
	if err != nil {
		return nil, err
	}
	applied := &connectorv1.SchemaApplied{SchemaId: schema.SchemaId}
	if applier, ok := ability[SchemaApplier](c.sink); ok {
		err = c.run("ApplySchema", func() (err error) {
			applied.Actions, err = applier.ApplySchema(schema.Dataset, decoded, schema.KeyColumns)
			return err
		})
	}
	var refused *Error
	if errors.As(err, &refused) && refused.Class == ClassSchema {
		applied.Refused = true
		applied.Diagnostics = append(applied.Diagnostics, refused.diagnostic())
		return applied, nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schemas[schema.SchemaId] = stagedSchema{schema.Dataset, decoder{decoded, schema.ArrowSchema}}
	return applied, nil
}

// prepare makes the named attempts safe, and drops all others. Rows that failed are an answer, where
// they are tolerated: the order comes again without them.
func (c *committer) prepare(order *connectorv1.WritePrepare) (*connectorv1.Prepared, error) {
	counted, others, err := c.stages.named(order.TxnId, order.Slots)
	if err != nil {
		return nil, err
	}
	if err := waitForPuts(counted); err != nil {
		return nil, err
	}
	if err := checkRows(counted, order.Slots); err != nil {
		return nil, err
	}
	c.stages.end(order.TxnId)
	txn := Txn{ID: order.TxnId, Epoch: c.epochNo, Token: order.Token, TraceParent: order.Traceparent}
	for _, one := range others {
		if err := c.run("Discard", one.discard); err != nil {
			return nil, err
		}
	}
	for _, one := range counted {
		txn.Staged = append(txn.Staged, one.staged()...)
	}
	var state []byte
	failed := c.failed[order.TxnId]
	delete(c.failed, order.TxnId)
	if len(failed) == 0 {
		err = c.run("Prepare", func() (err error) {
			state, err = c.sink.Prepare(txn)
			if errors.As(err, &failed) {
				return nil
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		c.stages.keep(order.TxnId, counted)
		most := min(len(failed), failedMost)
		c.failed[order.TxnId] = failed[most:]
		return nameFailed(order.TxnId, counted, failed[:most])
	}
	if len(state) > stateMost {
		return nil, Defectf("sink.state.too_large",
			"Prepare returned %d bytes of state; %d are the limit", len(state), stateMost).
			WithFix("Write large state to the sink, and return only its name.")
	}
	c.prepared[order.TxnId] = state
	prepared := PreparedTxn{order.TxnId, c.epochNo, state, order.Token}
	return &connectorv1.Prepared{Txn: preparedToProto(prepared)}, nil
}

// nameFailed answers with rows that can never be written, by their slots.
func nameFailed(txnID uint64, counted []*stage, failed rowsFailed) (*connectorv1.Prepared, error) {
	answer := &connectorv1.Prepared{Txn: &connectorv1.PreparedTxn{TxnId: txnID}}
	for _, one := range failed {
		for _, stage := range counted {
			number, found := stage.numberOf(one.staging, one.number)
			if found {
				answer.Failed = append(answer.Failed, &connectorv1.FailedRow{
					Slot: stage.slot, Row: number, Reason: one.reason.diagnostic(),
				})
			}
		}
	}
	if len(answer.Failed) != len(failed) {
		return nil, Defectf("connector.defect", "WriteBatch names a failed row that its batch does not have: %v", failed)
	}
	return answer, nil
}

func waitForPuts(counted []*stage) error {
	late := time.After(putsEndWithin)
	for _, one := range counted {
		select {
		case <-one.ended:
		case <-late:
			return Retriablef("sink.put.unfinished", "prepare: a named put did not end within %s", putsEndWithin)
		}
	}
	return nil
}

// commit makes a prepared transaction visible.
func (c *committer) commit(txnID uint64) (*connectorv1.TxnCommitted, error) {
	state, found := c.prepared[txnID]
	if !found {
		return nil, Defectf("sink.txn.not_prepared", "transaction %d was not prepared in this stream", txnID)
	}
	err := c.run("Commit", func() error { return c.sink.Commit(txnID, c.epochNo, state) })
	if err == nil {
		delete(c.prepared, txnID)
	}
	return &connectorv1.TxnCommitted{TxnId: txnID}, err
}

// metrics returns the numbers of a sink that has some.
func (c *committer) metrics() (found map[string]float64, err error) {
	if measurer, ok := ability[Measurer](c.sink); ok {
		err = c.run("Metrics", func() error {
			found = measurer.Metrics()
			return nil
		})
	}
	return found, err
}

// fail ends the task with an error: nothing of this epoch is written after it.
func (c *committer) fail(err *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
		close(c.stopped)
	}
	c.stopNow()
}

// close drops what was not prepared and closes the sink; only the first call does anything. What
// was prepared stays: after a crash Recover needs it.
func (c *committer) close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	defer close(c.over)
	defer c.stopNow()
	dropped := c.runLast("Discard", func() error { return discardAll(c.stages.dropAll()) })
	if err := c.runLast("Close", c.sink.Close); err != nil {
		return err
	}
	return dropped
}

func (c *committer) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		return nil
	}
	return c.failure
}

func discardAll(dropped []*stage) error {
	var errs error
	for _, one := range dropped {
		if err := one.discard(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("slot %d: %w", one.slot, err))
		}
	}
	return errs
}
