package main

import (
	"context"
	"testing"

	"penstock/go/connector"
)

// started returns a source that starts at an offset.
func started(t *testing.T, limit int64, offset connector.Fields) *source {
	t.Helper()
	made := &source{}
	if err := made.Init(config{Limit: limit}); err != nil {
		t.Fatal(err)
	}
	partitions := []connector.Partition{{Key: connector.Fields{"source": "NAME"}, Offset: offset}}
	if err := made.Connect(context.Background(), partitions); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestItResumesAtItsOffset(t *testing.T) {
	first, err := started(t, 1500, nil).ReadBatch(context.Background())
	if err != nil || first.Rows.NumRows() != 1000 {
		t.Fatalf("%v rows, %v", first.Rows, err)
	}
	resumed := started(t, 1500, first.Offset)
	rest, err := resumed.ReadBatch(context.Background())
	if err != nil || rest.Rows.NumRows() != 500 {
		t.Fatalf("%v rows, %v", rest.Rows, err)
	}
	if !resumed.Finished() {
		t.Error("it is not finished")
	}
}
