package connector

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	connectorv1 "penstock/go/api/connector/v1"
)

// monitorEndWithin is the time that a monitor gets to return. The call ends then; its goroutine
// holds up nothing but itself.
const monitorEndWithin = 5 * time.Second

type monitorStream = grpc.BidiStreamingServer[connectorv1.MonitorRequest, connectorv1.MonitorResponse]

// Monitor runs what an author wrote to watch, from its first message until the host hangs up.
func (c *control) Monitor(stream monitorStream) error {
	first, err := firstOfStream(stream)
	if err != nil || first.Target == nil {
		return Defectf("monitor.not_opened", "the first message of Monitor must have a target")
	}
	kind, err := c.connectors.find(first.Target.Connector, sources)
	if err != nil {
		return err
	}
	config, err := kind.configure(first.Target, nil)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(stream.Context())
	defer end()
	context.AfterFunc(c.ending, end)
	said := make(chan *connectorv1.MonitorResponse, framesMost)
	monitor := newMonitor(ctx, int(first.MaxTasks), func(response *connectorv1.MonitorResponse) {
		select {
		case said <- response:
		case <-ctx.Done():
		}
	})
	said <- &connectorv1.MonitorResponse{Kind: &connectorv1.MonitorResponse_Opened{
		Opened: &connectorv1.MonitorOpened{HeartbeatEvery: durationpb.New(heartbeat)},
	}}
	if err := hearFirst(monitor, first, stream, end); err != nil {
		return err
	}
	failed := make(chan *Error, 1)
	go func() {
		failed <- guard(kind.name+".Monitor", func() error { return kind.monitor(config, monitor) })
	}()
	return speak(stream, ctx, said, failed)
}

// hearFirst takes the first message, and leaves the others to a goroutine.
func hearFirst(
	monitor *Monitor, first *connectorv1.MonitorRequest, stream monitorStream, end context.CancelFunc,
) error {
	var coming []Partition
	take := func(request *connectorv1.MonitorRequest) error {
		for _, task := range request.Tasks {
			partitions, err := partitionsFromProto(task.Partitions)
			if err != nil {
				return err
			}
			coming = append(coming, partitions...)
		}
		if len(request.Tasks) > 0 && !request.MoreTasks { // a plan counts when all of it is there
			monitor.take(coming)
			coming = nil
		}
		return nil
	}
	if err := take(first); err != nil {
		return err
	}
	go func() {
		defer end() // the host hangs up to end the monitor
		for {
			request, err := stream.Recv()
			if err != nil || take(request) != nil {
				return
			}
		}
	}()
	return nil
}

// speak writes what the monitor says, and beside it a heartbeat (rule R19).
func speak(
	stream monitorStream, ctx context.Context, said <-chan *connectorv1.MonitorResponse,
	failed <-chan *Error,
) error {
	ticks := time.NewTicker(heartbeat / 2)
	defer ticks.Stop()
	running := failed
	for {
		var response *connectorv1.MonitorResponse
		select {
		case response = <-said:
		case <-ticks.C:
			response = &connectorv1.MonitorResponse{
				Kind: &connectorv1.MonitorResponse_Progress{Progress: &connectorv1.Progress{}},
			}
		case failure := <-running:
			if failure != nil && ctx.Err() == nil {
				return failure
			}
			running = nil // it has nothing more to watch; the host decides when the call ends
			continue
		case <-ctx.Done():
			awaitEnd(running)
			return nil
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

func awaitEnd(running <-chan *Error) {
	if running == nil {
		return
	}
	select {
	case <-running:
	case <-time.After(monitorEndWithin):
		slog.Warn("a monitor did not end in time")
	}
}
