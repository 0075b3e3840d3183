package connector

import (
	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

// emit sends a batch: its bad rows, its rows in pieces, its checkpoint. Encoding happens outside
// the lock, so that Fetch and the host's orders never wait for it.
func (p *pump) emit(batch *Batch) error {
	partitionID, err := p.encoder.partitionID(batch)
	if err != nil {
		return err
	}
	for _, bad := range batch.BadRows {
		p.send(badRow(batch, partitionID, bad))
	}
	if batch.Rows != nil {
		defer batch.Rows.Release()
		if batch.Rows.NumRows() > 0 {
			if all, err := p.emitRows(batch, partitionID); err != nil || !all {
				return err // what is left is read again from the last checkpoint: nothing is lost
			}
		}
	}
	return p.emitCheckpoint(batch, partitionID)
}

func (p *pump) emitRows(batch *Batch, partitionID string) (all bool, err error) {
	schemaID, schema, err := p.encoder.schemaOf(batch)
	if err != nil {
		return false, err
	}
	all = true
	err = p.encoder.cut(batch.Rows, func(rows uint32, data []byte) (bool, error) {
		if !p.roomInHand() {
			all = false
			return false, nil
		}
		if schema != nil {
			p.send(schema)
			schema = nil
		}
		return true, p.announce(piece{rows, schemaID, partitionID, data})
	})
	return all, err
}

func (p *pump) announce(part piece) error {
	seq := p.window.last + 1 // only this goroutine moves it
	batch, ready, err := p.encoder.ready(part, seq)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.window.hold(batch)
	p.checkpoints.announced(part.partitionID, uint64(part.rows))
	p.mu.Unlock()
	p.send(ready)
	return nil
}

func (p *pump) emitCheckpoint(batch *Batch, partitionID string) error {
	if batch.Offset != nil {
		offset, err := offsetToProto(batch.Offset)
		if err != nil {
			return err
		}
		p.mu.Lock()
		rows, err := p.checkpoints.add(partitionID, batch.Offset)
		id := p.checkpoints.last
		if batch.AwaitCommit {
			p.awaited = id
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
		p.send(&connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_Checkpoint{
			Checkpoint: &connectorv1.Checkpoint{
				CheckpointId: id, Rows: rows, LastSeq: p.window.last, AwaitCommit: batch.AwaitCommit,
				Offsets: map[string]*recordv1.Offset{partitionID: offset},
			},
		}})
	}
	if batch.FinishedPartition {
		p.emitDone(partitionID)
	}
	return nil
}

func (p *pump) emitDone(partitionID string) {
	if p.encoder.done[partitionID] {
		return
	}
	p.encoder.done[partitionID] = true
	done := &connectorv1.PartitionDone{PartitionId: partitionID}
	p.send(&connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_PartitionDone{PartitionDone: done}})
}

func badRow(batch *Batch, partitionID string, bad BadRow) *connectorv1.ReadResponse {
	return &connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_BadRow{
		BadRow: &connectorv1.BadRow{
			PartitionId: partitionID, Raw: bad.Raw, Reason: bad.Reason.diagnostic(),
			Dataset: batch.Dataset,
		},
	}}
}
