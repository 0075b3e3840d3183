package connector

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

type putStream = grpc.BidiStreamingServer[connectorv1.PutRequest, connectorv1.PutResponse]

// Put stages the rows of one attempt at a slot.
func (w *writing) Put(stream putStream) error {
	first, err := firstOfStream(stream)
	ticket := first.GetOpen()
	if err != nil || ticket == nil {
		return Defectf("put.not_opened", "the first frame of a Put must be open")
	}
	task, err := w.tasks.find(ticket.TaskId, ticket.Epoch)
	if err != nil {
		return err
	}
	stage, older, err := task.stages.begin(ticket.TxnId, ticket.Slot, ticket.Attempt)
	if err != nil {
		return err
	}
	defer close(stage.ended)
	stage.traceParent = TraceParent(stream.Context())
	if older != nil {
		if err := task.run("Discard", older.discard); err != nil {
			return err
		}
	}
	return putAll(task, stage, stream)
}

func putAll(task *committer, stage *stage, stream putStream) error {
	var parts chunks
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return task.run("Close", stage.close)
		}
		if err != nil {
			return err
		}
		batch := request.GetBatch()
		if batch == nil {
			continue // rule R16: frames with no known kind are ignored
		}
		data, whole, err := parts.add(batch)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		result, err := task.put(stage, batch, data)
		if err != nil {
			return err
		}
		if err := stream.Send(&connectorv1.PutResponse{BatchResult: result}); err != nil {
			return err
		}
	}
}

// put stages a batch and answers for every row of it (rule R7).
func (c *committer) put(stage *stage, batch *recordv1.Batch, data []byte) (*connectorv1.BatchResult, error) {
	if batch.Seq != stage.lastSeq+1 {
		return nil, Defectf("wire.seq.gap", "expected batch %d of the put, got %d", stage.lastSeq+1, batch.Seq)
	}
	if batch.Encoding != recordv1.Encoding_ENCODING_ARROW_IPC {
		return nil, Defectf("wire.encoding", "only Arrow IPC batches are taken")
	}
	c.mu.Lock()
	schema, found := c.schemas[batch.SchemaId]
	c.mu.Unlock()
	if !found {
		return nil, Defectf("wire.schema.unknown", "schema %d was not sent before its rows", batch.SchemaId)
	}
	stage.lastSeq = batch.Seq
	rows, err := schema.rows.rows(data)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	var refused []Refused
	err = c.run("Put", func() error {
		stage.mu.Lock()
		defer stage.mu.Unlock()
		staging, err := c.stagingOf(stage, batch.SchemaId, schema)
		if err != nil {
			return err
		}
		refused, err = staging.Put(rows)
		stage.rows += uint64(rows.NumRows()) - uint64(len(refused))
		stage.batches = append(stage.batches, stagedBatch{batch.SchemaId, uint64(rows.NumRows())})
		return err
	})
	return resultOf(batch.Seq, refused), err
}

func (c *committer) stagingOf(stage *stage, schemaID uint32, schema stagedSchema) (Staging, error) {
	if stage.dropped {
		return nil, Defectf("sink.slot.dropped",
			"attempt %d at slot %d was dropped: another one counts", stage.attempt, stage.slot)
	}
	if staging := stage.stagings[schemaID]; staging != nil {
		return staging, nil
	}
	staging, err := c.sink.Stage(Part{
		stage.txnID, stage.slot, stage.attempt, schema.dataset, schema.rows.schema, stage.traceParent,
	})
	if err == nil {
		stage.order = append(stage.order, schemaID)
		stage.stagings[schemaID] = staging
	}
	return staging, err
}

func resultOf(seq uint64, refused []Refused) *connectorv1.BatchResult {
	result := &connectorv1.BatchResult{Seq: seq, AllOk: len(refused) == 0}
	for _, one := range refused {
		result.Failed = append(result.Failed, &connectorv1.RowError{
			Row: uint32(one.Row), Reason: one.Reason.diagnostic(),
		})
	}
	return result
}
