package connector

import "testing"

func TestARangeGoesOverTheWire(t *testing.T) {
	sent := Partition{Key: Fields{"hosts": "a-h"}, Range: &PartitionRange{"host", "a", "h"}}
	message, err := partitionToProto(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := partitionFromProto(message)
	if err != nil || got.Range == nil || *got.Range != *sent.Range {
		t.Fatalf("%v, %v", got.Range, err)
	}
	for host, in := range map[string]bool{"": false, "a": true, "gz": true, "h": false} {
		if got.Range.Contains(Fields{"host": host}) != in {
			t.Errorf("host %q: not %v", host, in)
		}
	}
	if got.Range.Contains(Fields{"rack": "b"}) {
		t.Error("a key without the field is in the range")
	}
}
