package connector

import (
	"log/slog"
	"sync"
	"time"
)

// epochsMost is how many tasks' highest epochs are kept after they ended. The host's own fence
// holds without it; this one stops a late Open from touching the outside again.
const epochsMost = 100_000

// owned runs under an epoch and can be ended by a newer one.
type owned interface {
	comparable
	epoch() uint64
	ended() <-chan struct{}
	fail(err *Error)
}

// owners are the running tasks, by id: a newer epoch ends the older stream, an older one is
// refused (rules R11 and R18).
type owners[T owned] struct {
	mu      sync.Mutex
	running map[string]T
	highest map[string]uint64
	order   []string // of highest, oldest first
}

func newOwners[T owned]() *owners[T] {
	return &owners[T]{running: map[string]T{}, highest: map[string]uint64{}}
}

// admit takes note of a new owner, and ends the older one first.
func (o *owners[T]) admit(taskID string, epoch uint64, within time.Duration) error {
	o.mu.Lock()
	if err := o.refuseOlder(taskID, epoch); err != nil {
		o.mu.Unlock()
		return err
	}
	if _, known := o.highest[taskID]; !known {
		o.order = append(o.order, taskID)
	}
	o.highest[taskID] = epoch
	if len(o.order) > epochsMost {
		delete(o.highest, o.order[0])
		o.order = o.order[1:]
	}
	older, found := o.running[taskID]
	o.mu.Unlock()
	if !found {
		return nil
	}
	older.fail(FencedErrorf("task.taken_over", "task '%s' was opened again, epoch %d", taskID, epoch))
	select {
	case <-older.ended():
	case <-time.After(within):
		slog.Warn("the older stream of a task did not end in time", "task", taskID)
	}
	o.end(taskID, older)
	return nil
}

// start makes a task the one that calls of its id reach; refused when a newer one came.
func (o *owners[T]) start(taskID string, task T) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.refuseOlder(taskID, task.epoch()); err != nil {
		return err
	}
	if _, taken := o.running[taskID]; taken {
		return FencedErrorf("task.opened_twice", "task '%s' was opened twice at the same time", taskID)
	}
	o.running[taskID] = task
	return nil
}

// find returns the task that a call with this epoch may reach.
func (o *owners[T]) find(taskID string, epoch uint64) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	task, found := o.running[taskID]
	if err := o.refuseOlder(taskID, epoch); err != nil {
		return task, err
	}
	if !found || task.epoch() != epoch {
		return task, Retriablef("task.not_open", "task '%s' is not open here with epoch %d", taskID, epoch).
			WithFix("Open its control stream first, and keep it open.")
	}
	return task, nil
}

// end forgets a task that ended, unless a newer one has its place already.
func (o *owners[T]) end(taskID string, task T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running[taskID] == task {
		delete(o.running, taskID)
	}
}

func (o *owners[T]) all() []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks := make([]T, 0, len(o.running))
	for _, task := range o.running {
		tasks = append(tasks, task)
	}
	return tasks
}

func (o *owners[T]) refuseOlder(taskID string, epoch uint64) error {
	highest := o.highest[taskID]
	if epoch >= highest {
		return nil
	}
	return FencedErrorf("task.stale_epoch", "task '%s' has epoch %d now; epoch %d is over",
		taskID, highest, epoch).WithFix("Stop: another worker owns this task.")
}

// waitForAll waits until all tasks have ended, or the grace is over.
func waitForAll[T owned](tasks []T, grace time.Duration) {
	late := time.After(grace)
	for _, task := range tasks {
		select {
		case <-task.ended():
		case <-late:
			return
		}
	}
}
