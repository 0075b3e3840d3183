package connector

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/util"
)

const stagingMost = 512 << 20

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

// Prepare writes and flushes, in order.
func (s *simpleSink) Prepare(txn Txn) ([]byte, error) {
	ctx := withTrace(s.ctx, txn.TraceParent)
	for _, staged := range txn.Staged {
		staging := staged.(*memoryStaging)
		for _, rows := range staging.batches {
			if err := s.sink.WriteBatch(ctx, staging.dataset, rows); err != nil {
				return nil, err
			}
		}
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
	batches []arrow.RecordBatch
	size    int64
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
	m.batches = append(m.batches, without(rows, refused)...)
	return refused, nil
}

// Close does nothing: rows are kept until they are written or discarded.
func (*memoryStaging) Close() error { return nil }

// Discard lets the rows go.
func (m *memoryStaging) Discard() error {
	for _, rows := range m.batches {
		rows.Release()
	}
	m.budget.give(m.size)
	m.batches, m.size = nil, 0
	return nil
}

// without returns the runs of rows between refused ones; release them.
func without(rows arrow.RecordBatch, refused []Refused) []arrow.RecordBatch {
	bad := make(map[int64]bool, len(refused))
	for _, one := range refused {
		bad[int64(one.Row)] = true
	}
	var kept []arrow.RecordBatch
	start := int64(0)
	for row := int64(0); row <= rows.NumRows(); row++ {
		if row < rows.NumRows() && !bad[row] {
			continue
		}
		if row > start {
			kept = append(kept, rows.NewSlice(start, row))
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
