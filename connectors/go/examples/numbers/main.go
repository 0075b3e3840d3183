// Command numbers is a plugin with a source that counts: the smallest connector that can be
// resumed.
package main

import (
	"context"

	"penstock/go/connector"
)

type config struct {
	Limit     int64 `required:"true" doc:"Numbers to give in all."`
	BatchRows int64 `default:"1000" doc:"Numbers to give at once."`
}

type row struct {
	Number int64
	Text   string
}

// numbers counts from zero to a limit.
type numbers struct {
	connector.Base[config]
	next int64
	rows *connector.Rows[row]
}

// Connect goes on where the last committed offset was.
func (n *numbers) Connect(_ context.Context, partitions []connector.Partition) error {
	n.rows = connector.NewRows[row]()
	n.next, _ = partitions[0].Offset["next"].(int64)
	return nil
}

// ReadBatch gives the next numbers, and the offset after them.
func (n *numbers) ReadBatch(context.Context) (*connector.Batch, error) {
	end := min(n.next+n.Config.BatchRows, n.Config.Limit)
	if n.next == end {
		return nil, nil
	}
	for ; n.next < end; n.next++ {
		n.rows.Append(&row{Number: n.next, Text: "a row from Go"})
	}
	offset := connector.Fields{"next": n.next}
	return &connector.Batch{Rows: n.rows.Take(), Offset: offset, Dataset: "numbers"}, nil
}

// Finished reports whether the limit was reached.
func (n *numbers) Finished() bool { return n.next >= n.Config.Limit }

var source = connector.SourceSpec[config]{
	Name:    "go-numbers",
	Title:   "Counts from zero to a limit.",
	Bounded: true,
	New:     func() connector.Source[config] { return &numbers{} },
}

func main() {
	connector.Serve(connector.Plugin{Name: "go-numbers", Version: "0.1.0"}, source)
}
