package connector

import (
	"time"

	"google.golang.org/protobuf/proto"

	connectorv1 "penstock/go/api/connector/v1"
)

// What the host orders: called from the goroutine that hears it, never from the task's own.

// changes does something under the lock, and tells the task's goroutine.
func (p *pump) changes(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default: // it is told already
	}
}

func (p *pump) grant(credit *connectorv1.Credit) {
	p.changes(func() { p.window.grant(credit.GetBytes(), credit.GetBatches()) })
}

func (p *pump) release(seq uint64) {
	p.changes(func() { p.window.release(seq) })
}

// held returns what answers Fetch for a batch.
func (p *pump) held(seq uint64, memoryFiles bool) ([]frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.frames(seq, memoryFiles)
}

// committed hands on that all checkpoints up to this are durable; it confirms what the source
// waits for.
func (p *pump) committed(id uint64) {
	confirm := false
	p.changes(func() {
		p.checkpoints.commit(id)
		confirm = 0 < p.awaited && p.awaited <= id
		p.wake()
	})
	if confirm {
		p.send(p.report())
	}
}

// wake ends a running wait. The lock is held.
func (p *pump) wake() {
	if p.endWait != nil {
		p.endWait()
	}
}

// report returns the newest progress, with what is known to be committed.
func (p *pump) report() *connectorv1.ReadResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	report := proto.CloneOf(p.progress)
	report.CommittedCheckpointId = p.checkpoints.committed
	return &connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_Progress{Progress: report}}
}

// drain finishes within a time: what is in hand is still sent when there is credit.
func (p *pump) drain(grace time.Duration) {
	p.changes(func() {
		if p.deadline.IsZero() {
			p.deadline = time.Now().Add(grace)
		}
	})
	p.stopNow()
}

// fail ends the task with an error that is not the source's: fenced, a broken order.
func (p *pump) fail(err *Error) {
	p.mu.Lock()
	if p.failure == nil {
		p.failure = err
	}
	p.mu.Unlock()
	p.stop()
}

// stop ends the task without another frame: nobody listens any more.
func (p *pump) stop() {
	p.changes(func() {
		if !p.stopped {
			p.stopped = true
			close(p.gone)
		}
	})
	p.stopNow()
}

// end takes note of how the source ended.
func (p *pump) end(err *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil && err != nil {
		p.failure = err
	}
}

func (p *pump) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// hangs tells whether a method of the source has been running for longer than that.
func (p *pump) hangs(longerThan time.Duration) bool {
	since := p.busy.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > longerThan
}
