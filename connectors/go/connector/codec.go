package connector

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec below is built on it
	"google.golang.org/grpc/mem"
)

// frame is a FetchResponse that is encoded already: a protobuf object would copy the rows twice
// more, and the same bytes answer every repeated Fetch.
type frame struct {
	head, data []byte
}

func (f frame) size() int64 { return int64(len(f.head) + len(f.data)) }

// codec passes frames through, and leaves messages to protobuf.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal returns the wire form of a frame or message.
func (c codec) Marshal(value any) (mem.BufferSlice, error) {
	if ready, ok := value.(frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(ready.head), mem.SliceBuffer(ready.data)}, nil
	}
	return c.CodecV2.Marshal(value)
}
