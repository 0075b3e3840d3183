package connector

import (
	"context"
	"errors"
	"time"

	connectorv1 "penstock/go/api/connector/v1"
)

// wait blocks until the source may have more, or the task has something else to do.
func (p *pump) wait() *Error {
	most := quietWait
	waiter, own := p.source.(Waiter)
	p.mu.Lock()
	if !p.idle {
		most = progressEvery // soon told what is left, which the heartbeat then repeats
	}
	if !own {
		most = min(most, p.nextWait)
		p.nextWait = min(2*p.nextWait, longestWait)
	}
	ctx, cancel := context.WithTimeout(p.stopping, most)
	defer cancel()
	p.endWait = cancel
	if p.checkpoints.hasAcks() {
		cancel()
	}
	p.mu.Unlock()
	if !own {
		<-ctx.Done()
		return nil
	}
	// not a call that may hang: to block is its purpose
	err := guard(p.kind.name+".Wait", func() error {
		err := waiter.Wait(ctx)
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return nil
		}
		return err
	})
	p.mu.Lock()
	p.endWait = nil
	p.mu.Unlock()
	return err
}

// mayRead waits for credit; false when the task is ending.
func (p *pump) mayRead() (bool, *Error) {
	for {
		if err := p.deliverAcks(); err != nil {
			return false, err
		}
		p.mu.Lock()
		ending := p.stopped || !p.deadline.IsZero()
		ready := p.window.hasRoom() && p.checkpoints.hasRoom()
		acks := p.checkpoints.hasAcks()
		p.mu.Unlock()
		if ending || ready {
			return !ending, nil
		}
		if !acks {
			<-p.changed
		}
	}
}

// roomInHand waits for credit for what was read already; a drain leaves it its grace (rule R9).
func (p *pump) roomInHand() bool {
	for {
		p.mu.Lock()
		stopped, room, deadline := p.stopped, p.window.hasRoom(), p.deadline
		p.mu.Unlock()
		if stopped || room {
			return !stopped
		}
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return false
		}
		p.waitForChange(deadline)
	}
}

// waitForChange waits for the host, until a deadline if there is one.
func (p *pump) waitForChange(deadline time.Time) {
	if deadline.IsZero() {
		<-p.changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-p.changed:
	case <-timer.C:
	}
}

// deliverAcks tells the source what is durable, always after the host said so.
func (p *pump) deliverAcks() *Error {
	p.mu.Lock()
	offsets := p.checkpoints.takeAcks()
	p.mu.Unlock()
	acker, ok := p.source.(Acker)
	if !ok || len(offsets) == 0 {
		return nil
	}
	return p.call("Ack", func() error { return acker.Ack(offsets) })
}

// finish says that it is over, then stays until the host has what it was told of: its executors
// may still fetch, and the last Committed is still to come and is never dropped (rule R2).
func (p *pump) finish() *Error {
	p.mu.Lock()
	stopped, last, deadline := p.stopped, p.checkpoints.last, p.deadline
	p.mu.Unlock()
	if !stopped {
		p.send(&connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_Drained{
			Drained: &connectorv1.Drained{CheckpointId: last},
		}})
	}
	if end := time.Now().Add(linger); end.After(deadline) {
		deadline = end
	}
	for {
		if err := p.deliverAcks(); err != nil {
			return err
		}
		if !p.isAwaited() || !time.Now().Before(deadline) {
			return p.deliverAcks() // the last Committed and the end of the stream may come at once
		}
		p.waitForChange(deadline)
	}
}

func (p *pump) isAwaited() bool {
	_, acks := p.source.(Acker)
	p.mu.Lock()
	defer p.mu.Unlock()
	unacked := acks && !p.checkpoints.allAcked()
	return !p.stopped && (unacked || len(p.window.batches) > 0)
}

func (p *pump) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped || !p.deadline.IsZero()
}

// send queues a frame, in order; it blocks while the host reads slower than the source.
func (p *pump) send(frame *connectorv1.ReadResponse) {
	select {
	case p.frames <- frame:
	case <-p.gone:
	}
}
