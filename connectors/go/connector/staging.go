package connector

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	connectorv1 "penstock/go/api/connector/v1"
)

// stage is one attempt at a slot: a staging per schema, in order of arrival.
type stage struct {
	txnID         uint64
	slot, attempt uint32
	ended         chan struct{} // its put is over
	traceParent   string        // of its put

	mu       sync.Mutex // held while a method of its stagings runs
	order    []uint32
	stagings map[uint32]Staging
	batches  []stagedBatch
	rows     uint64
	lastSeq  uint64
	complete bool
	dropped  bool
}

// stagedBatch is the schema of a batch that was put, and how many rows it had.
type stagedBatch struct {
	schemaID uint32
	rows     uint64
}

// numberOf returns the number in the slot of a row of a staging.
func (s *stage) numberOf(wanted Staging, row uint64) (number uint64, found bool) {
	before := uint64(0)
	for _, batch := range s.batches {
		if s.stagings[batch.schemaID] == wanted {
			if row < batch.rows {
				return before + row, true
			}
			row -= batch.rows
		}
		before += batch.rows
	}
	return 0, false
}

func newStage(txnID uint64, slot, attempt uint32) *stage {
	return &stage{
		txnID: txnID, slot: slot, attempt: attempt, ended: make(chan struct{}),
		stagings: map[uint32]Staging{},
	}
}

func (s *stage) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// staged returns the stagings, in order of arrival.
func (s *stage) staged() []Staging {
	all := make([]Staging, 0, len(s.order))
	for _, schemaID := range s.order {
		all = append(all, s.stagings[schemaID])
	}
	return all
}

func (s *stage) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, staging := range s.staged() {
		if err := staging.Close(); err != nil {
			return err
		}
	}
	s.complete = true
	return nil
}

// discard drops everything of it; a put that still runs finds out at its next batch.
func (s *stage) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
	var errs error
	for _, staging := range s.staged() {
		errs = errors.Join(errs, staging.Discard())
	}
	return errs
}

type slotAttempt struct{ slot, attempt uint32 }

// stages are those of a task's transactions. A slot may be put several times, when an executor
// failed. Only the attempts that Prepare names count; all others are dropped: no row is written
// twice and none is lost.
type stages struct {
	mu   sync.Mutex
	open map[uint64]map[slotAttempt]*stage
	done uint64
}

func newStages() *stages { return &stages{open: map[uint64]map[slotAttempt]*stage{}} }

// startAfter says which transaction is done already.
func (s *stages) startAfter(done uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = done
}

// begin returns a new stage, and the broken one that it replaces, if any.
func (s *stages) begin(txnID uint64, slot, attempt uint32) (made, older *stage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if txnID <= s.done {
		return nil, nil, Defectf("sink.txn.closed",
			"transaction %d takes no more rows: %d is prepared", txnID, s.done).
			WithFix("This attempt came too late; nothing is lost.")
	}
	if s.open[txnID] == nil {
		s.open[txnID] = map[slotAttempt]*stage{}
	}
	place := slotAttempt{slot, attempt}
	older = s.open[txnID][place]
	if older != nil && !older.hasEnded() {
		return nil, nil, Defectf("sink.slot.busy", "slot %d attempt %d is being put already", slot, attempt)
	}
	made = newStage(txnID, slot, attempt)
	s.open[txnID][place] = made
	return made, older, nil
}

// named returns the stages that count, in slot order, and all others of the transaction.
func (s *stages) named(txnID uint64, slots []*connectorv1.PutSlot) (counted, others []*stage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := slices.Clone(slots)
	slices.SortFunc(wanted, func(a, b *connectorv1.PutSlot) int { return cmp.Compare(a.Slot, b.Slot) })
	for _, slot := range wanted {
		found := s.open[txnID][slotAttempt{slot.Slot, slot.Attempt}]
		switch {
		case found != nil:
			counted = append(counted, found)
		case slot.Rows > 0:
			return nil, nil, Retriablef("sink.slot.missing",
				"slot %d attempt %d of transaction %d is not staged here", slot.Slot, slot.Attempt, txnID).
				WithFix("Reopen the task from its stored offsets.")
		}
	}
	for _, one := range s.open[txnID] {
		if !slices.Contains(counted, one) {
			others = append(others, one)
		}
	}
	return counted, others, nil
}

// end closes a transaction for puts.
func (s *stages) end(txnID uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = max(s.done, txnID)
	delete(s.open, txnID)
}

// keep remembers stages of a closed transaction: it is prepared again.
func (s *stages) keep(txnID uint64, kept []*stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[txnID] = map[slotAttempt]*stage{}
	for _, one := range kept {
		s.open[txnID][slotAttempt{one.slot, one.attempt}] = one
	}
}

// dropAll forgets everything that was not prepared.
func (s *stages) dropAll() []*stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*stage
	for txnID := range s.open {
		all = append(all, s.take(txnID)...)
	}
	return all
}

func (s *stages) take(txnID uint64) []*stage {
	var all []*stage
	for _, one := range s.open[txnID] {
		all = append(all, one)
	}
	delete(s.open, txnID)
	return all
}

// checkRows compares the rows that count with what the host counted (R5).
func checkRows(counted []*stage, slots []*connectorv1.PutSlot) error {
	for _, wanted := range slots {
		rows := uint64(0)
		for _, one := range counted {
			if one.slot != wanted.Slot {
				continue
			}
			if !one.complete {
				return Retriablef("sink.slot.incomplete",
					"the put of slot %d attempt %d broke off", wanted.Slot, wanted.Attempt).
					WithFix("Reopen the task from its stored offsets.")
			}
			rows = one.rows
		}
		if rows != wanted.Rows {
			return Defectf("sink.slot.rows_mismatch",
				"slot %d attempt %d has %d rows here, the host counted %d",
				wanted.Slot, wanted.Attempt, rows, wanted.Rows)
		}
	}
	return nil
}
