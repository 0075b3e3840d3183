package connector

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	connectorv1 "penstock/go/api/connector/v1"
)

const (
	// quietWait is the longest single wait of a source that nothing needs to interrupt. It only
	// bounds how long a source with a broken Wait can sleep.
	quietWait = 30 * time.Second
	// shortestWait is the first wait of a source that has no Wait of its own. Shorter burns CPU
	// while a source is catching its breath; longer adds to the latency of a busy one.
	shortestWait = 5 * time.Millisecond
	// longestWait is where that wait stops doubling. Longer adds latency to the first row after a
	// silence; shorter costs CPU for every idle task.
	longestWait = 100 * time.Millisecond
	// progressEvery is the time between progress frames while rows flow: enough for a progress bar.
	progressEvery = time.Second
	// linger is the least time that a drained task stays fetchable. Shorter could cut off the last
	// micro-batch of a slow sink; longer only keeps memory when the host forgot the stream.
	linger = 60 * time.Second
	// framesMost is how many frames may wait. Credit bounds batches already; this bounds the small
	// frames beside them when the host reads slowly.
	framesMost = 1024
)

// pump runs one task of a source. Its goroutine blocks in one of three places, and in all of them
// costs nothing: in the source's wait, for credit, and after the last row. Orders of the host come from another goroutine under the lock; acks are delivered by the task's own, so
// that authors need no locks.
type pump struct {
	taskID  string
	epochNo uint64
	kind    *kind
	source  source
	encoder *encoder

	frames   chan *connectorv1.ReadResponse
	changed  chan struct{} // something that the task's goroutine may wait for
	gone     chan struct{} // nobody listens any more
	over     chan struct{} // the source is closed
	stopping context.Context
	stopNow  context.CancelFunc
	busy     atomic.Int64 // since when a method of the source runs, nanoseconds; 0: none does

	mu            sync.Mutex
	window        *window
	checkpoints   checkpoints
	deadline      time.Time // of the drain; zero when there is none
	stopped       bool
	awaited       uint64
	progress      *connectorv1.Progress
	progressAt    time.Time
	idle          bool // so was the newest progress
	endWait       context.CancelFunc
	failure       *Error
	nextWait      time.Duration
	untilCaughtUp bool
}

func newPump(kind *kind, made source, partitions []Partition, order *connectorv1.ReadOpen) *pump {
	p := &pump{
		taskID: order.Task.GetTaskId(), epochNo: order.Epoch, kind: kind, source: made,
		encoder: newEncoder(partitions, order.Limits, order.MemoryFiles),
		frames:  make(chan *connectorv1.ReadResponse, framesMost),
		changed: make(chan struct{}, 1), gone: make(chan struct{}), over: make(chan struct{}),
		window: newWindow(), progress: &connectorv1.Progress{LagBytes: -1, LagRecords: -1}, idle: true,
		nextWait: shortestWait, untilCaughtUp: order.UntilCaughtUp,
	}
	p.stopping, p.stopNow = context.WithCancel(context.Background())
	return p
}

func (p *pump) epoch() uint64          { return p.epochNo }
func (p *pump) ended() <-chan struct{} { return p.over }

// run is the life of a task: everything the author wrote runs in its goroutine.
func (p *pump) run(init func() error, partitions []Partition) {
	defer close(p.over)
	defer p.stopNow()
	var err *Error
	// guarded as a whole, too: what the SDK does with an author's values ends this task alone
	panicked := guard(p.kind.name, func() error {
		err = p.live(init, partitions)
		return nil
	})
	if panicked != nil {
		err = panicked
	}
	p.mu.Lock()
	p.window.close()
	p.mu.Unlock()
	also := p.call("Close", p.source.Close) // after a failed Connect, Close may fail for want of it
	if err == nil {
		err = also
	}
	p.end(err)
}

func (p *pump) live(init func() error, partitions []Partition) *Error {
	if err := p.call("Init", init); err != nil {
		return err
	}
	connect := func() error { return p.source.Connect(p.stopping, partitions) }
	if err := p.call("Connect", connect); err != nil {
		return err
	}
	p.send(opened(p.kind.source.NeedsCommit, p.untilCaughtUp && p.endsWhenCaughtUp(partitions)))
	if err := p.read(partitions); err != nil {
		return err
	}
	return p.finish()
}

// call runs a method of the author, so that the heartbeat sees it hang.
func (p *pump) call(stage string, method func() error) *Error {
	p.busy.Store(time.Now().UnixNano())
	defer p.busy.Store(0)
	return guard(p.kind.name+"."+stage, method)
}

func (p *pump) read(partitions []Partition) *Error {
	for {
		if going, err := p.mayRead(); err != nil || !going {
			return err
		}
		batch, err := p.readBatch()
		if err != nil {
			return err
		}
		if batch == nil && p.kind.source.Bounded {
			if done, err := p.finished(); err != nil || done {
				return p.readAll(partitions, err)
			}
		}
		if batch != nil {
			if err := p.took(batch); err != nil {
				return err
			}
		}
		if done, err := p.caughtUp(); err != nil || done {
			return p.readAll(partitions, err)
		}
		if batch == nil {
			if err := p.rest(); err != nil {
				return err
			}
		}
	}
}

// endsWhenCaughtUp tells whether the source says when it has caught up, or ends by itself.
func (p *pump) endsWhenCaughtUp(partitions []Partition) bool {
	if _, ok := p.source.(CatchesUp); ok {
		return true
	}
	for _, one := range partitions {
		if !one.Bounded {
			return false
		}
	}
	return p.kind.source.Bounded
}

// caughtUp tells whether the task is to end, and has nothing more to give. A batch that a drain cut
// short is not announced in whole.
func (p *pump) caughtUp() (done bool, failure *Error) {
	source, ok := p.source.(CatchesUp)
	if !ok || !p.untilCaughtUp || p.isEnding() {
		return false, nil
	}
	failure = p.call("CaughtUp", func() error {
		done = source.CaughtUp()
		return nil
	})
	return done, failure
}

// rest waits for more rows.
func (p *pump) rest() *Error {
	if err := p.tellProgress(true, false); err != nil {
		return err
	}
	return p.wait()
}

func (p *pump) took(batch *Batch) *Error {
	p.nextWait = shortestWait
	if err := asError(p.emit(batch), p.kind.name+".ReadBatch"); err != nil {
		return err
	}
	return p.tellProgress(false, false)
}

func (p *pump) readBatch() (batch *Batch, failure *Error) {
	var err error
	failure = p.call("ReadBatch", func() error {
		batch, err = p.source.ReadBatch(p.stopping)
		return err
	})
	if errors.Is(err, context.Canceled) && p.isEnding() {
		return nil, nil // it gave up waiting because the task ends
	}
	return batch, failure
}

func (p *pump) finished() (done bool, failure *Error) {
	finisher, ok := p.source.(Finisher)
	if !ok {
		return false, nil
	}
	failure = p.call("Finished", func() error {
		done = finisher.Finished()
		return nil
	})
	return done, failure
}

func (p *pump) readAll(partitions []Partition, err *Error) *Error {
	if err != nil {
		return err
	}
	if err := p.tellProgress(true, true); err != nil {
		return err
	}
	for _, partition := range partitions {
		p.emitDone(partition.ID())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return asError(p.checkpoints.refuseUncovered(), p.kind.name)
}

// tellProgress says what is left, when it changed and not too often.
func (p *pump) tellProgress(idle, now bool) *Error {
	if !now && time.Since(p.progressAt) < progressEvery {
		return nil
	}
	p.progressAt = time.Now()
	progress := &connectorv1.Progress{LagBytes: -1, LagRecords: -1}
	if remainer, ok := p.source.(Remainer); ok {
		err := p.call("Remaining", func() error {
			progress.LagBytes, progress.LagRecords = remainer.Remaining()
			return nil
		})
		if err != nil {
			return err
		}
	}
	if measurer, ok := p.source.(Measurer); ok {
		err := p.call("Metrics", func() error {
			progress.Metrics = measurer.Metrics()
			return nil
		})
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	changed := !proto.Equal(progress, p.progress)
	p.progress, p.idle = progress, idle
	p.mu.Unlock()
	if changed {
		p.send(p.report())
	}
	return nil
}
