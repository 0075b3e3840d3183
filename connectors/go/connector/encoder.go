package connector

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/util"
	"google.golang.org/protobuf/types/known/durationpb"

	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

const (
	// cutMost is the most bytes of rows in a batch, unless it is a single row. Larger ones make
	// every buffer on the way larger.
	cutMost = 32 << 20
	// cutTarget is the bytes of a batch when the host does not say. Smaller costs more frames a
	// row; larger gives the host less to spread over its slots.
	cutTarget = 4 << 20
	// heartbeat is the time without a progress frame after which the host may call a task stuck.
	// Frames go out twice as often. Shorter makes idle tasks cost; longer leaves a hanging source
	// unnoticed.
	heartbeat = 30 * time.Second
)

// piece is a part of an author's batch that is one batch on the wire, encoded.
type piece struct {
	rows        uint32
	schemaID    uint32
	partitionID string
	data        []byte
}

// encoder makes frames of what a source said. Numbers and credit are the pump's.
type encoder struct {
	only         string // the task's one partition
	schemas      *schemas
	done         map[string]bool
	messageBytes int64
	targetBytes  int64
	mostBytes    int64
	mostRows     int64
	memoryFiles  bool // executors fetch batches in memory files
}

func newEncoder(partitions []Partition, limits *connectorv1.Limits, memoryFiles bool) *encoder {
	made := &encoder{
		schemas: newSchemas(), done: map[string]bool{}, messageBytes: messageMost, memoryFiles: memoryFiles,
		targetBytes: cutTarget, mostRows: 1 << 20,
	}
	if len(partitions) == 1 {
		made.only = partitions[0].ID()
	}
	if most := limits.GetMaxMessageBytes(); most > 0 && most < messageMost {
		made.messageBytes = int64(most)
	}
	if target := limits.GetTargetBatchBytes(); target > 0 && target < cutMost {
		made.targetBytes = int64(target)
	}
	if rows := limits.GetMaxBatchRows(); rows > 0 {
		made.mostRows = int64(rows)
	}
	made.mostBytes = min(cutMost, made.messageBytes*3/4)
	return made
}

// partitionID returns the id of a batch's partition.
func (e *encoder) partitionID(batch *Batch) (string, error) {
	if batch.Partition != nil {
		return CanonicalJSON(batch.Partition)
	}
	if e.only == "" {
		return "", Defectf("source.batch.no_partition",
			"a batch names no partition, and the task has not exactly one").
			WithFix("Set Batch.Partition.")
	}
	return e.only, nil
}

// schemaOf returns the id of a batch's schema, and the frame of a new one.
func (e *encoder) schemaOf(batch *Batch) (uint32, *connectorv1.ReadResponse, error) {
	id, message, err := e.schemas.idOf(batch.Dataset, batch.Rows.Schema(), batch.KeyColumns)
	if message == nil {
		return id, nil, err
	}
	return id, &connectorv1.ReadResponse{
		Kind: &connectorv1.ReadResponse_Schema{Schema: message},
	}, nil
}

// cut hands rows on in sizes for the wire, encoded; it ends early when take says so.
func (e *encoder) cut(rows arrow.RecordBatch, take func(rows uint32, data []byte) (bool, error)) error {
	count := rows.NumRows()
	size := util.TotalRecordSize(rows)
	slices := max(ceil(size, e.targetBytes), ceil(count, e.mostRows), 1)
	step := ceil(count, slices)
	for start := int64(0); start < count; start += step {
		more, err := e.slice(rows, start, min(start+step, count), size/count, take)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// slice encodes some rows; halves them while they are too large and more than one.
func (e *encoder) slice(
	rows arrow.RecordBatch, start, end, rowSize int64, take func(uint32, []byte) (bool, error),
) (bool, error) {
	part := rows
	if start > 0 || end < rows.NumRows() {
		part = rows.NewSlice(start, end)
		defer part.Release()
	}
	data, err := encodeRows(part, rowSize*(end-start))
	if err != nil {
		return false, err
	}
	if int64(len(data)) <= e.mostBytes || end-start == 1 {
		return take(uint32(end-start), data)
	}
	middle := start + (end-start)/2
	more, err := e.slice(rows, start, middle, rowSize, take)
	if err != nil || !more {
		return false, err
	}
	return e.slice(rows, middle, end, rowSize, take)
}

// ready returns what answers Fetch, and what announces it.
func (e *encoder) ready(part piece, seq uint64) (held, *connectorv1.ReadResponse, error) {
	head := &recordv1.Batch{
		Seq: seq, SchemaId: part.schemaID, Rows: part.rows,
		Encoding: recordv1.Encoding_ENCODING_ARROW_IPC,
	}
	batch, err := e.hold(head, part.data)
	ready := &connectorv1.BatchReady{
		Seq: seq, SchemaId: part.schemaID, PartitionId: part.partitionID, Rows: part.rows,
		Bytes: uint64(batch.size),
	}
	return batch, &connectorv1.ReadResponse{
		Kind: &connectorv1.ReadResponse_Ready{Ready: ready},
	}, err
}

// hold returns a batch that can be fetched: its rows in a memory file, or in frames.
func (e *encoder) hold(head *recordv1.Batch, data []byte) (held, error) {
	if e.memoryFiles {
		if file := memoryFileOf(data); file != nil {
			one, err := memoryFrame(head, file.message)
			return held{int64(len(data)), func() ([]frame, error) {
				data, err := file.read()
				if err != nil {
					return nil, err
				}
				return fetchFrames(head, data, e.messageBytes)
			}, file, one}, err
		}
	}
	frames, err := fetchFrames(head, data, e.messageBytes)
	size := int64(0)
	for _, one := range frames {
		size += one.size()
	}
	return held{size: size, frames: func() ([]frame, error) { return frames, nil }}, err
}

func ceil(number, by int64) int64 { return (number + by - 1) / by }

// opened returns the first frame.
func opened(needsCommit, endsWhenCaughtUp bool) *connectorv1.ReadResponse {
	return &connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_Opened{
		Opened: &connectorv1.ReadOpened{
			Encoding:    recordv1.Encoding_ENCODING_ARROW_IPC,
			NeedsCommit: needsCommit, HeartbeatEvery: durationpb.New(heartbeat), ConfirmsCommits: true,
			EndsWhenCaughtUp: endsWhenCaughtUp,
		},
	}}
}
