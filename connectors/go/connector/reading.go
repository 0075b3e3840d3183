package connector

import (
	"time"

	"google.golang.org/grpc"

	connectorv1 "penstock/go/api/connector/v1"
)

const (
	// openWithin is the time for the first frame. It only stops a caller that opens a stream and
	// says nothing.
	openWithin = 30 * time.Second
	// readHandOver is the time that an older stream of a task has to let go of its source. Longer
	// delays a move; shorter lets two objects of one task hold the same file or slot.
	readHandOver = 10 * time.Second
)

type readStream = grpc.BidiStreamingServer[connectorv1.ReadRequest, connectorv1.ReadResponse]

// reading serves the sources of a plugin: Read is the control stream of a task, Fetch gives its
// rows to whoever may have them.
type reading struct {
	connectorv1.UnimplementedSourceServiceServer
	connectors *connectors
	tasks      *owners[*pump]
}

func newReading(connectors *connectors) *reading {
	return &reading{connectors: connectors, tasks: newOwners[*pump]()}
}

// drain ends every task, and waits until they are closed or the grace is over.
func (r *reading) drain(grace time.Duration) {
	tasks := r.tasks.all()
	for _, task := range tasks {
		task.drain(grace)
	}
	waitForAll(tasks, grace)
	for _, task := range tasks {
		task.stop()
	}
}

// Fetch streams announced batches; the same ones again and again until they are released.
func (r *reading) Fetch(
	request *connectorv1.FetchRequest, stream grpc.ServerStreamingServer[connectorv1.FetchResponse],
) error {
	task, err := r.tasks.find(request.TaskId, request.Epoch)
	if err != nil {
		return err
	}
	seqs := request.Seqs
	for seq := request.FromSeq; len(request.Seqs) == 0 && seq <= request.ToSeq; seq++ {
		if err := sendBatch(task, seq, request.MemoryFiles, stream); err != nil {
			return err
		}
	}
	for _, seq := range seqs {
		if err := sendBatch(task, seq, request.MemoryFiles, stream); err != nil {
			return err
		}
	}
	return nil
}

func sendBatch(task *pump, seq uint64, memoryFiles bool, stream grpc.ServerStream) error {
	frames, err := task.held(seq, memoryFiles)
	for at := 0; err == nil && at < len(frames); at++ {
		err = stream.SendMsg(frames[at])
	}
	return err
}

// Read runs a task from Open to the end of the stream.
func (r *reading) Read(stream readStream) error {
	task, err := r.open(stream)
	if err != nil {
		return asError(err, "open")
	}
	go obey(task, stream)
	err = write(task, stream)
	task.stop()
	if reason := task.reason(); reason != nil {
		return reason
	}
	return err
}

func (r *reading) open(stream readStream) (*pump, error) {
	first, err := firstOfStream(stream)
	order := first.GetOpen()
	if err != nil || order == nil {
		return nil, Defectf("read.not_opened", "the first frame of a Read stream must be open")
	}
	kind, err := r.connectors.find(order.Target.GetConnector(), sources)
	if err != nil {
		return nil, err
	}
	taskID := order.Task.GetTaskId()
	if err := r.tasks.admit(taskID, order.Epoch, readHandOver); err != nil { // rule R18
		return nil, err
	}
	config, err := kind.configure(order.Target, order.Task.GetConfig())
	if err != nil {
		return nil, err
	}
	partitions, err := partitionsFromProto(order.Task.GetPartitions())
	if err != nil {
		return nil, err
	}
	made, init := kind.newSource(config)
	task := newPump(kind, made, partitions, order)
	if err := r.tasks.start(taskID, task); err != nil {
		return nil, err
	}
	task.grant(order.Credit)
	go func() {
		task.run(init, partitions)
		r.tasks.end(taskID, task)
	}()
	return task, nil
}

// receiver is the receiving end of a stream.
type receiver[T any] interface {
	Recv() (T, error)
}

// firstOfStream returns the first frame of a stream; nothing waits for it for ever.
func firstOfStream[T any](stream receiver[T]) (T, error) {
	type result struct {
		frame T
		err   error
	}
	came := make(chan result, 1)
	go func() {
		frame, err := stream.Recv()
		came <- result{frame, err}
	}()
	select {
	case first := <-came:
		return first.frame, first.err
	case <-time.After(openWithin):
		var none T
		return none, Retriablef("stream.not_opened", "no frame came within %s", openWithin)
	}
}

// obey hands the host's frames to the task. The host hanging up ends it.
func obey(task *pump, stream readStream) {
	for {
		request, err := stream.Recv()
		if err != nil {
			task.stop()
			return
		}
		switch order := request.Kind.(type) {
		case *connectorv1.ReadRequest_Release:
			task.release(order.Release.Seq)
		case *connectorv1.ReadRequest_Committed:
			task.committed(order.Committed.CheckpointId)
		} // rule R16: frames with no known kind are ignored
	}
}

// write sends what the task says; beside it a heartbeat, unless the source hangs (rule R19).
func write(task *pump, stream readStream) error {
	const beat = heartbeat / 2
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	drained := false // nothing follows it, not even a heartbeat
	for {
		var frame *connectorv1.ReadResponse
		select {
		case frame = <-task.frames:
		case <-ticks.C:
			if drained || task.hangs(beat) {
				continue
			}
			frame = task.report()
		case <-task.gone:
			// a drained task is stopped once it is over: what it said last must still arrive
			select {
			case <-task.over:
				return flush(task, stream, drained)
			default:
				return nil
			}
		case <-task.over:
			return flush(task, stream, drained)
		}
		if drained {
			continue
		}
		drained = frame.GetDrained() != nil
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
}

// flush sends what is left of a task that ended.
func flush(task *pump, stream readStream, drained bool) error {
	for {
		select {
		case frame := <-task.frames:
			if drained {
				continue
			}
			drained = frame.GetDrained() != nil
			if err := stream.Send(frame); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}
