package connector

import (
	"testing"

	recordv1 "penstock/go/api/record/v1"
)

func TestRowsBesideAMemoryFileAreRefused(t *testing.T) {
	file := ownMemoryFile()
	if file == nil {
		t.Fatal("no memory file")
	}
	for name, batch := range map[string]*recordv1.Batch{
		"data":       {Seq: 1, MemoryFile: file, Data: []byte("x")},
		"first part": {Seq: 1, MemoryFile: file, MoreChunks: true},
	} {
		var joined chunks
		if _, _, err := joined.add(batch); codeOf(err) != "wire.memory_file.broken" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var joined chunks
	data, whole, err := joined.add(&recordv1.Batch{Seq: 1, MemoryFile: file})
	if err != nil || !whole || len(data) != int(file.Bytes) {
		t.Errorf("%d bytes, %v, %v", len(data), whole, err)
	}
}
