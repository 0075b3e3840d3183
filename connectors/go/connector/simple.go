package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/util"
)

const (
	stagingMost = 512 << 20
	// failedMost are the failed rows of an answer of Prepare.
	failedMost = 1_000
	// reportAfter is the time after which failed rows are reported before all others are written: the
	// host waits two minutes for an answer.
	reportAfter = 30 * time.Second
)

// failedRow is a row that can never be written, by its number among all rows of its staging.
type failedRow struct {
	staging Staging
	number  uint64
	reason  *Error
}

// rowsFailed is what Prepare returns when rows failed and all others are written.
type rowsFailed []failedRow

// Error says how many they are.
func (r rowsFailed) Error() string { return fmt.Sprintf("%d row(s) cannot be written", len(r)) }

// simple is a Sink without the type of its configuration.
type simple interface {
	Connect(ctx context.Context) error
	WriteBatch(ctx context.Context, dataset string, rows arrow.RecordBatch) error
	Flush(ctx context.Context) error
	Close() error
}

// simpleSink is a Sink as a transactional one: the SDK keeps its rows in memory until Prepare. The
// rows are then durable before the offset is, so Commit has nothing left to do; a crash in between
// writes them again: at least once.
type simpleSink struct {
	sink   simple
	budget *budget
	ctx    context.Context
	// tolerates says whether Prepare may return rowsFailed.
	tolerates bool
}

func newSimpleSink(sink simple, most int64) *simpleSink {
	if most <= 0 {
		most = stagingMost
	}
	return &simpleSink{sink: sink, budget: &budget{most: most}}
}

// Connect opens what is needed to write.
func (s *simpleSink) Connect(ctx context.Context, _ string, _ uint64) error {
	s.ctx = ctx
	return s.sink.Connect(ctx)
}

// Stage returns a place in memory.
func (s *simpleSink) Stage(part Part) (Staging, error) {
	checker, _ := s.sink.(RowChecker)
	return &memoryStaging{dataset: part.Dataset, checker: checker, budget: s.budget}, nil
}

// Prepare writes and flushes, in order. Rows that are written leave their staging: when failed rows
// make the host prepare the transaction again, only the others are left.
func (s *simpleSink) Prepare(txn Txn) ([]byte, error) {
	ctx := withTrace(s.ctx, txn.TraceParent)
	var failed rowsFailed
	until := time.Now().Add(reportAfter)
	for _, staged := range txn.Staged {
		staging := staged.(*memoryStaging)
		for len(staging.batches) > 0 {
			rows, err := s.writeFirst(ctx, staging)
			if err != nil {
				return nil, err
			}
			failed = append(failed, rows...)
			if len(failed) >= failedMost || len(failed) > 0 && time.Now().After(until) {
				return nil, failed
			}
		}
	}
	if len(failed) > 0 {
		return nil, failed
	}
	if err := s.sink.Flush(ctx); err != nil {
		return nil, err
	}
	for _, staged := range txn.Staged {
		if err := staged.Discard(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// writeFirst writes the first batch of a staging, or puts its halves in its place. Returns the rows
// that can never be written.
func (s *simpleSink) writeFirst(ctx context.Context, staging *memoryStaging) (rowsFailed, error) {
	first := staging.batches[0]
	err := s.sink.WriteBatch(ctx, staging.dataset, first.rows)
	var named FailedRows
	var reason *Error
	switch {
	case err == nil:
	case errors.As(err, &named) && len(named) > 0:
	case errors.As(err, &reason) && reason.Class == ClassData && s.tolerates:
		if first.rows.NumRows() > 1 {
			staging.halveFirst()
			return nil, nil
		}
		named = FailedRows{{Row: 0, Reason: reason}}
	default:
		return nil, err
	}
	if len(named) > 0 && !s.tolerates {
		return nil, DataErrorf("sink.rows.refused", "%v", err).
			WithFix("Correct the rows, or tolerate them with `errors.tolerance=all`: they become dead letters.")
	}
	count := first.rows.NumRows()
	staging.batches = staging.batches[1:]
	first.rows.Release()
	failed := make(rowsFailed, 0, len(named))
	for _, one := range named {
		if one.Row < 0 || int64(one.Row) >= count {
			return nil, Defectf("connector.defect", "WriteBatch names failed row %d of a batch of %d", one.Row, count)
		}
		if one.Reason != nil && one.Reason.Class != ClassData {
			return nil, one.Reason
		}
		failed = append(failed, failedRow{staging, first.number + uint64(one.Row), one.Reason})
	}
	return failed, nil
}

// Commit has nothing to do: Prepare made the rows visible.
func (s *simpleSink) Commit(uint64, uint64, []byte) error { return nil }

// Close lets go of everything.
func (s *simpleSink) Close() error { return s.sink.Close() }

// ability returns what else a sink has, also one behind a simpleSink.
func ability[T any](sink transactional) (T, bool) {
	if inner, ok := sink.(*simpleSink); ok {
		found, ok := inner.sink.(T)
		return found, ok
	}
	found, ok := sink.(T)
	return found, ok
}

// memoryStaging is rows of one part, in memory.
type memoryStaging struct {
	dataset string
	checker RowChecker
	budget  *budget
	batches []numberedRows
	size    int64
	count   uint64
}

// numberedRows are rows that follow each other. The number is that of the first one among all rows
// that were put.
type numberedRows struct {
	rows   arrow.RecordBatch
	number uint64
}

// halveFirst divides the first batch, so that a row that fails is found.
func (m *memoryStaging) halveFirst() {
	first := m.batches[0]
	middle := first.rows.NumRows() / 2
	halves := []numberedRows{
		{first.rows.NewSlice(0, middle), first.number},
		{first.rows.NewSlice(middle, first.rows.NumRows()), first.number + uint64(middle)},
	}
	m.batches = append(halves, m.batches[1:]...)
	first.rows.Release()
}

// Put keeps rows, but for those that the sink refuses.
func (m *memoryStaging) Put(rows arrow.RecordBatch) ([]Refused, error) {
	var refused []Refused
	if m.checker != nil {
		refused = m.checker.CheckBatch(m.dataset, rows)
	}
	size := util.TotalRecordSize(rows)
	if err := m.budget.take(size); err != nil {
		return nil, err
	}
	m.size += size
	m.batches = append(m.batches, without(rows, m.count, refused)...)
	m.count += uint64(rows.NumRows())
	return refused, nil
}

// Close does nothing: rows are kept until they are written or discarded.
func (*memoryStaging) Close() error { return nil }

// Discard lets the rows go.
func (m *memoryStaging) Discard() error {
	for _, one := range m.batches {
		one.rows.Release()
	}
	m.budget.give(m.size)
	m.batches, m.size = nil, 0
	return nil
}

// without returns the runs of rows between refused ones; release them. The first row has a number.
func without(rows arrow.RecordBatch, number uint64, refused []Refused) []numberedRows {
	bad := make(map[int64]bool, len(refused))
	for _, one := range refused {
		bad[int64(one.Row)] = true
	}
	var kept []numberedRows
	start := int64(0)
	for row := int64(0); row <= rows.NumRows(); row++ {
		if row < rows.NumRows() && !bad[row] {
			continue
		}
		if row > start {
			kept = append(kept, numberedRows{rows.NewSlice(start, row), number + uint64(start)})
		}
		start = row + 1
	}
	return kept
}

// budget is the bytes that stagings may hold together.
type budget struct {
	mu         sync.Mutex
	most, used int64
}

// take takes bytes; refused when there are not enough.
func (b *budget) take(size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+size > b.most {
		return Retriablef("sink.staging.full", "more than %d bytes of rows wait to be prepared", b.most).
			WithFix("Lower the connector's batch size, raise StagingBytes, " +
				"or write a TransactionalSink that stages on disk.")
	}
	b.used += size
	return nil
}

func (b *budget) give(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= size
}
