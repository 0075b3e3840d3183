package connector

import (
	"testing"

	connectorv1 "penstock/go/api/connector/v1"
)

// sent is a stream that keeps what a plugin sends.
type sent struct {
	readStream
	frames []*connectorv1.ReadResponse
}

func (s *sent) Send(frame *connectorv1.ReadResponse) error {
	s.frames = append(s.frames, frame)
	return nil
}

func TestADrainedTaskSaysSoAlsoWhenItIsStoppedAtOnce(t *testing.T) {
	for range 100 { // the order in which a stream learns of all this is random
		task := newPump(&kind{name: "x"}, nil, nil, &connectorv1.ReadOpen{Epoch: 1})
		task.send(&connectorv1.ReadResponse{Kind: &connectorv1.ReadResponse_Drained{
			Drained: &connectorv1.Drained{},
		}})
		close(task.over)
		close(task.gone)
		stream := &sent{}
		if err := write(task, stream); err != nil || len(stream.frames) != 1 {
			t.Fatalf("sent %d frames, error %v", len(stream.frames), err)
		}
	}
}
