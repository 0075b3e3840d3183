// Command NAME is a Penstock plugin with a source.
package main

import (
	"context"

	"penstock/go/connector"
)

type config struct {
	Limit int64 `required:"true" doc:"Rows in all."`
}

type row struct {
	Number int64
	Text   string
}

// source sends numbered rows. Replace them by the rows of your system.
type source struct {
	connector.Base[config]
	next int64
	rows *connector.Rows[row]
}

// Connect resumes at the last committed offset.
func (s *source) Connect(_ context.Context, partitions []connector.Partition) error {
	s.rows = connector.NewRows[row]()
	s.next, _ = partitions[0].Offset["next"].(int64)
	return nil
}

// ReadBatch returns the next rows and the offset after them.
func (s *source) ReadBatch(context.Context) (*connector.Batch, error) {
	end := min(s.next+1000, s.Config.Limit)
	if s.next >= end {
		return nil, nil
	}
	for ; s.next < end; s.next++ {
		s.rows.Append(&row{Number: s.next, Text: "a row of NAME"})
	}
	offset := connector.Fields{"next": s.next}
	return &connector.Batch{Rows: s.rows.Take(), Offset: offset, Dataset: "rows"}, nil
}

// Finished returns whether the limit is reached.
func (s *source) Finished() bool { return s.next >= s.Config.Limit }

var spec = connector.SourceSpec[config]{
	Name:    "NAME",
	Title:   "Numbered rows.",
	Bounded: true,
	New:     func() connector.Source[config] { return &source{} },
}

func main() {
	connector.Serve(connector.Plugin{Name: "NAME", Version: "0.1.0"}, spec)
}
