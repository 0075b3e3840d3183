package connector

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	connectorv1 "penstock/go/api/connector/v1"
)

// writeHandOver is the time that an older stream of a task has to end its running commit. Longer
// delays a move; shorter could let two epochs write at once.
const writeHandOver = 30 * time.Second

type writeStream = grpc.BidiStreamingServer[connectorv1.WriteRequest, connectorv1.WriteResponse]

// writing serves the sinks of a plugin: Write is the control stream of a task, Put takes rows from
// executors.
type writing struct {
	connectorv1.UnimplementedSinkServiceServer
	connectors *connectors
	tasks      *owners[*committer]
}

func newWriting(connectors *connectors) *writing {
	return &writing{connectors: connectors, tasks: newOwners[*committer]()}
}

// drain ends every task once its running call is done, and waits for that within the grace.
func (w *writing) drain(grace time.Duration) {
	tasks := w.tasks.all()
	for _, task := range tasks {
		task.fail(Retriablef("plugin.ending", "the plugin process is ending"))
	}
	waitForAll(tasks, grace)
}

// Write runs a task from Open to the end of the stream.
func (w *writing) Write(stream writeStream) error {
	task, first, err := w.open(stream)
	if err != nil {
		return asError(err, "open")
	}
	if err = stream.Send(first); err == nil {
		err = obeyUntilStopped(task, stream)
	}
	w.end(task)
	if reason := task.reason(); reason != nil {
		return reason
	}
	return err
}

func (w *writing) open(stream writeStream) (*committer, *connectorv1.WriteResponse, error) {
	first, err := firstOfStream(stream)
	order := first.GetOpen()
	if err != nil || order == nil {
		return nil, nil, Defectf("write.not_opened", "the first frame of a Write stream must be open")
	}
	kind, err := w.connectors.find(order.Target.GetConnector(), sinksOf)
	if err != nil {
		return nil, nil, err
	}
	config, err := kind.configure(order.Target, order.Task.GetConfig())
	if err != nil {
		return nil, nil, err
	}
	taskID := order.Task.GetTaskId()
	if err := w.tasks.admit(taskID, order.Epoch, writeHandOver); err != nil { // rule R18
		return nil, nil, err
	}
	sink, init := kind.newSink(config)
	task := newCommitter(sink, kind.name, taskID, order.Epoch)
	if err := w.tasks.start(taskID, task); err != nil {
		return nil, nil, err
	}
	committed, err := task.open(init, order, kind.modes)
	if err != nil {
		w.end(task)
		return nil, nil, err
	}
	return task, openedWrite(kind, sink, order, committed), nil
}

func (w *writing) end(task *committer) {
	if err := task.close(); err != nil {
		slog.Warn("closing a task failed", "task", task.taskID, "error", err.Error())
	}
	w.tasks.end(task.taskID, task)
}

// openedWrite says how the sink commits. A weaker mode than wanted is told, never hidden: the host
// fails the task then (rule R13).
func openedWrite(
	kind *kind, sink transactional, order *connectorv1.WriteOpen, committed *PreparedTxn,
) *connectorv1.WriteResponse {
	mode := kind.protoModes()[0]
	for _, one := range kind.protoModes() {
		if one == order.CommitMode {
			mode = one
		}
	}
	_, describes := ability[ColumnDescriber](sink)
	_, isSimple := sink.(*simpleSink)
	opened := &connectorv1.WriteOpened{
		CommitMode: mode, Limits: &connectorv1.Limits{MaxMessageBytes: messageMost}, DescribesDatasets: describes,
		ReportsFailedRows: isSimple,
	}
	if committed != nil {
		opened.Committed = preparedToProto(*committed)
	}
	if kind.commitEvery > 0 {
		opened.CommitEvery = durationpb.New(kind.commitEvery)
	}
	return &connectorv1.WriteResponse{Kind: &connectorv1.WriteResponse_Opened{Opened: opened}}
}

// obeyUntilStopped obeys the host until it closes, hangs up, or a newer owner comes.
func obeyUntilStopped(task *committer, stream writeStream) error {
	requests := make(chan *connectorv1.WriteRequest)
	go func() {
		defer close(requests)
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- request:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		select {
		case <-task.stopped:
			return nil
		case request, more := <-requests:
			if !more {
				return nil
			}
			answered, err := answer(task, request)
			if err != nil {
				return err
			}
			if answered == nil {
				continue
			}
			if err := stream.Send(answered); err != nil || answered.GetClosed() != nil {
				return err
			}
			if answered.GetTxnCommitted() == nil {
				continue
			}
			if err := tellNumbers(task, stream); err != nil {
				return err
			}
		}
	}
}

// tellNumbers says what the sink has counted, if it counts.
func tellNumbers(task *committer, stream writeStream) error {
	metrics, err := task.metrics()
	if err != nil || len(metrics) == 0 {
		return err
	}
	progress := &connectorv1.Progress{LagBytes: -1, LagRecords: -1, Metrics: metrics}
	return stream.Send(&connectorv1.WriteResponse{
		Kind: &connectorv1.WriteResponse_Progress{Progress: progress}})
}

// answer does what the host orders; nil when that has no answer.
func answer(task *committer, request *connectorv1.WriteRequest) (*connectorv1.WriteResponse, error) {
	switch order := request.Kind.(type) {
	case *connectorv1.WriteRequest_Schema:
		applied, err := task.applySchema(order.Schema)
		return &connectorv1.WriteResponse{
			Kind: &connectorv1.WriteResponse_SchemaApplied{SchemaApplied: applied}}, err
	case *connectorv1.WriteRequest_Describe:
		described, err := task.describe(order.Describe)
		return &connectorv1.WriteResponse{Kind: &connectorv1.WriteResponse_Described{Described: described}}, err
	case *connectorv1.WriteRequest_Prepare:
		prepared, err := task.prepare(order.Prepare)
		return &connectorv1.WriteResponse{
			Kind: &connectorv1.WriteResponse_Prepared{Prepared: prepared}}, err
	case *connectorv1.WriteRequest_Commit:
		committed, err := task.commit(order.Commit.TxnId)
		return &connectorv1.WriteResponse{
			Kind: &connectorv1.WriteResponse_TxnCommitted{TxnCommitted: committed}}, err
	case *connectorv1.WriteRequest_Close:
		err := task.close()
		return &connectorv1.WriteResponse{
			Kind: &connectorv1.WriteResponse_Closed{Closed: &connectorv1.WriteClosed{}}}, err
	}
	return nil, nil // rule R16: frames with no known kind are ignored
}
