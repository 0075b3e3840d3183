package connector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

const (
	// messageMost is the largest gRPC message, bytes, sent or taken.
	messageMost = 64 << 20
	// headroom is the bytes of a message kept free for everything that is not rows.
	headroom = 64 << 10
	// chunksMost bounds a batch that is put together from chunks.
	chunksMost = 1 << 30

	dataField  = 7 // of Batch
	batchField = 1 // of FetchResponse
)

// encodeSchema returns the Arrow IPC schema message.
func encodeSchema(schema *arrow.Schema) ([]byte, error) {
	payload := ipc.GetSchemaPayload(schema, memory.DefaultAllocator)
	defer payload.Release()
	var out bytes.Buffer
	_, err := payload.WritePayload(&out)
	return out.Bytes(), err
}

// decodeSchema returns the schema of an Arrow IPC schema message.
func decodeSchema(message []byte) (*arrow.Schema, error) {
	reader, err := newReader(message)
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	return reader.Schema(), nil
}

func newReader(message []byte) (reader *ipc.Reader, err error) {
	failure := guard("wire", func() error {
		reader, err = ipc.NewReader(bytes.NewReader(message), ipc.WithDelayReadSchema(false))
		return err
	})
	if failure != nil {
		return nil, Defectf("wire.schema.unreadable", "no Arrow IPC schema message: %s", failure.Message)
	}
	return reader, nil
}

// encodeRows returns the Arrow IPC message of rows, without their schema. The size is a guess that
// saves copies when it is right.
func encodeRows(rows arrow.RecordBatch, size int64) ([]byte, error) {
	payload, err := ipc.GetRecordBatchPayload(rows)
	if err != nil {
		return nil, err
	}
	defer payload.Release()
	out := bytes.NewBuffer(make([]byte, 0, size+headroom))
	if _, err := payload.WritePayload(out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decoder reads the batches of one schema: an Arrow stream that is fed message by message.
type decoder struct {
	schema *arrow.Schema
	head   []byte
}

// rows returns the rows of an Arrow IPC message; release them.
func (d decoder) rows(message []byte) (arrow.RecordBatch, error) {
	var rows arrow.RecordBatch
	failure := guard("wire", func() error {
		if !isWhole(message) {
			return io.ErrUnexpectedEOF
		}
		stream := io.MultiReader(bytes.NewReader(d.head), bytes.NewReader(message))
		reader, err := ipc.NewReader(stream)
		if err != nil {
			return err
		}
		defer reader.Release()
		if !reader.Next() {
			return errors.Join(reader.Err(), io.ErrUnexpectedEOF)
		}
		rows = reader.RecordBatch()
		rows.Retain()
		return nil
	})
	if failure != nil {
		return nil, Defectf("wire.rows.unreadable",
			"a batch is not an Arrow IPC message of its schema: %s", failure.Message).
			WithFix("Send the schema that the batch names before the batch.")
	}
	return rows, nil
}

// isWhole tells whether a message has the bytes of metadata that it declares: before anything
// makes room for them.
func isWhole(message []byte) bool {
	const prefix = 8 // the mark of a message, and the length of its metadata
	if len(message) < prefix || binary.LittleEndian.Uint32(message) != 0xFFFFFFFF {
		return false
	}
	return uint64(binary.LittleEndian.Uint32(message[4:])) <= uint64(len(message)-prefix)
}

// fetchFrames returns the FetchResponses of a batch. They are several only when it is larger than
// a message: rule R10, never drop.
func fetchFrames(head *recordv1.Batch, data []byte, most int64) ([]frame, error) {
	room := max(most-headroom, 1)
	var frames []frame
	for at := int64(0); at == 0 || at < int64(len(data)); at += room {
		end := min(at+room, int64(len(data)))
		head.Chunk, head.MoreChunks = uint32(len(frames)), end < int64(len(data))
		one, err := fetchFrame(head, data[at:end])
		if err != nil {
			return nil, err
		}
		frames = append(frames, one)
	}
	return frames, nil
}

// fetchFrame joins a frame by hand, so that the rows are not copied.
func fetchFrame(head *recordv1.Batch, data []byte) (frame, error) {
	fields, err := proto.Marshal(head)
	if err != nil {
		return frame{}, err
	}
	fields = protowire.AppendTag(fields, dataField, protowire.BytesType)
	fields = protowire.AppendVarint(fields, uint64(len(data)))
	out := protowire.AppendTag(nil, batchField, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(len(fields)+len(data)))
	return frame{append(out, fields...), data}, nil
}

// memoryFrame returns the FetchResponse of a batch whose rows are in a memory file.
func memoryFrame(head *recordv1.Batch, file *recordv1.MemoryFile) (frame, error) {
	head = proto.CloneOf(head)
	head.MemoryFile = file
	data, err := proto.Marshal(&connectorv1.FetchResponse{Batch: head})
	return frame{data, nil}, err
}

// chunks puts the chunks of a batch together again.
type chunks struct {
	parts [][]byte
	size  int
}

// add returns the whole data when a batch is its last chunk, else nil.
func (c *chunks) add(batch *recordv1.Batch) ([]byte, bool, error) {
	if int(batch.Chunk) != len(c.parts) {
		return nil, false, Defectf("wire.chunk.order", "expected chunk %d, got %d",
			len(c.parts), batch.Chunk)
	}
	data, err := dataOf(batch)
	if err != nil {
		return nil, false, err
	}
	if batch.Chunk == 0 && !batch.MoreChunks {
		return data, true, nil
	}
	c.parts = append(c.parts, data)
	if c.size += len(data); c.size > chunksMost {
		return nil, false, Defectf("wire.batch.too_large", "a batch is larger than %d bytes", chunksMost)
	}
	if batch.MoreChunks {
		return nil, false, nil
	}
	data = bytes.Join(c.parts, nil)
	c.parts, c.size = nil, 0
	return data, true, nil
}
