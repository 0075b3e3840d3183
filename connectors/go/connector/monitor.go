package connector

import (
	"context"
	"fmt"
	"sync"
	"time"

	connectorv1 "penstock/go/api/connector/v1"
	errorv1 "penstock/go/api/error/v1"
)

// Monitor is what a source's monitor is given: the plan in force, a way to ask for another, a
// bounded wait. It watches for a connector's life, in a goroutine of its own.
type Monitor struct {
	// MaxTasks is the most tasks, as Plan is told.
	MaxTasks int

	ctx        context.Context
	say        func(*connectorv1.MonitorResponse)
	mu         sync.Mutex
	partitions []Partition
	woken      chan struct{}
}

func newMonitor(ctx context.Context, maxTasks int, say func(*connectorv1.MonitorResponse)) *Monitor {
	return &Monitor{MaxTasks: max(maxTasks, 1), ctx: ctx, say: say, woken: make(chan struct{}, 1)}
}

// Context is done when the monitor is to end.
func (m *Monitor) Context() context.Context { return m.ctx }

// Partitions are those of the plan in force, of all tasks.
func (m *Monitor) Partitions() []Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions
}

// Replan asks for Plan to be called again. Tasks whose partitions stay the same go on. Ask again
// while it is not followed: a wish can be lost with the host it was made to.
func (m *Monitor) Replan(reason string) {
	replan := &connectorv1.Replan{Reason: reason}
	m.say(&connectorv1.MonitorResponse{Kind: &connectorv1.MonitorResponse_Replan{Replan: replan}})
}

// Compare asks for another plan when the one in force has other partitions than these; it tells
// whether it was asked for.
func (m *Monitor) Compare(planned []Partition) bool {
	wanted := idsOf(planned)
	now := idsOf(m.Partitions())
	appeared, gone := missing(wanted, now), missing(now, wanted)
	if appeared+gone == 0 {
		return false
	}
	m.Replan(fmt.Sprintf("%d partitions appeared, %d are gone", appeared, gone))
	return true
}

// Warn tells people something. What the monitor returns as its error fails the connector instead.
func (m *Monitor) Warn(warning *Error) {
	diagnostic := warning.diagnostic()
	diagnostic.Severity = errorv1.Severity_SEVERITY_WARNING
	m.say(&connectorv1.MonitorResponse{
		Kind: &connectorv1.MonitorResponse_Diagnostic{Diagnostic: diagnostic},
	})
}

// Wait waits so long, or until there is another plan in force, or Wake; false: it is to end.
func (m *Monitor) Wait(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.woken:
	case <-m.ctx.Done():
	}
	return m.ctx.Err() == nil
}

// Wake ends a wait. May be called by any goroutine.
func (m *Monitor) Wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

func (m *Monitor) take(partitions []Partition) {
	m.mu.Lock()
	m.partitions = partitions
	m.mu.Unlock()
	m.Wake()
}

// watchPlan asks for another plan whenever Plan gives other partitions than are in force.
func (k *kind) watchPlan(config any, monitor *Monitor) error {
	for {
		planned, err := k.plan(config, monitor.MaxTasks, monitor.Partitions())
		if err != nil {
			return err
		}
		monitor.Compare(planned)
		if !monitor.Wait(k.lookEvery) {
			return nil
		}
	}
}

func idsOf(partitions []Partition) map[string]bool {
	ids := make(map[string]bool, len(partitions))
	for _, partition := range partitions {
		ids[partition.ID()] = true
	}
	return ids
}

func missing(from, in map[string]bool) int {
	count := 0
	for id := range from {
		if !in[id] {
			count++
		}
	}
	return count
}
