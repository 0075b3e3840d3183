// Command moody is a plugin whose connectors use every part of the SDK, and misuse some, as their
// configuration says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"penstock/go/connector"
)

type config struct {
	Mode     string           `choices:"good,endless,await,panic,defect,lost,uncovered,nowhere,dictionary,blocks" default:"good" doc:"What it does."`
	Keys     []string         `default:"a,b" doc:"Its partitions."`
	Every    time.Duration    `default:"20ms" doc:"Time between two batches."`
	Room     int64            `type:"size" default:"1MiB" doc:"Not used."`
	Password connector.Secret `doc:"Never shown."`
}

type row struct {
	Number int64
	Text   *string
	At     time.Time
}

// moody gives three rows of each partition, and one that could not be read.
type moody struct {
	connector.Base[config]
	rows       *connector.Rows[row]
	partitions []connector.Partition
	given      int
	acked      map[string]connector.Fields
}

func (m *moody) Connect(_ context.Context, partitions []connector.Partition) error {
	m.rows, m.partitions = connector.NewRows[row](), partitions
	return nil
}

func (m *moody) ReadBatch(ctx context.Context) (*connector.Batch, error) {
	switch m.Config.Mode {
	case "panic":
		panic("as it was told")
	case "defect":
		return nil, errors.New("as it was told")
	case "lost":
		return nil, connector.OffsetLostErrorf("moody.lost", "the offset is gone").WithFix("Begin anew.")
	case "blocks":
		<-ctx.Done()
		return nil, ctx.Err()
	case "await":
		if m.given > len(m.acked) {
			return nil, nil // it cannot go on before its first rows are durable
		}
	}
	if m.given == len(m.partitions) {
		return nil, nil
	}
	batch := m.batch(m.partitions[m.given])
	m.given++
	return batch, nil
}

func (m *moody) batch(partition connector.Partition) *connector.Batch {
	for number := range int64(3) {
		one := &row{Number: number, At: time.UnixMicro(number)}
		if text := "text"; number == 1 {
			one.Text = &text
		}
		m.rows.Append(one)
	}
	batch := &connector.Batch{
		Rows: m.rows.Take(), Partition: partition.Key, Offset: connector.Fields{"done": true},
		Dataset: "moods", KeyColumns: []string{"number"},
		BadRows:           []connector.BadRow{{Raw: []byte("\xff"), Reason: connector.DataErrorf("moody.row", "bad")}},
		AwaitCommit:       m.Config.Mode == "await",
		FinishedPartition: true,
	}
	switch m.Config.Mode {
	case "uncovered":
		batch.Offset, batch.FinishedPartition = nil, false
	case "nowhere":
		batch.Partition = nil
	case "dictionary":
		batch.Rows = dictionary()
	}
	return batch
}

func (m *moody) Ack(offsets map[string]connector.Fields) error {
	if m.acked == nil {
		m.acked = map[string]connector.Fields{}
	}
	for id, offset := range offsets {
		m.acked[id] = offset
	}
	return nil
}

func (m *moody) Finished() bool {
	return m.Config.Mode != "endless" && m.CaughtUp()
}

func (m *moody) CaughtUp() bool { return m.given == len(m.partitions) }

func (m *moody) Remaining() (bytes, rows int64) { return -1, int64(len(m.partitions) - m.given) }

func (m *moody) Wait(ctx context.Context) error {
	timer := time.NewTimer(m.Config.Every)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

func plan(config config, _ int, _ []connector.Partition) ([]connector.Partition, error) {
	var partitions []connector.Partition
	for _, key := range config.Keys {
		partitions = append(partitions, connector.Partition{
			Key: connector.Fields{"key": key}, Datasets: []string{"moods." + key}, Bounded: true,
		})
	}
	return partitions, nil
}

func check(_ context.Context, config config) error {
	if config.Mode == "lost" {
		return connector.AuthErrorf("moody.refused", "the outside says no").At("password")
	}
	return nil
}

func validate(config config) []*connector.Error {
	if len(config.Keys) > 3 {
		return []*connector.Error{connector.ConfigErrorf("moody.too_many", "too many keys").At("keys")}
	}
	return nil
}

// watch asks for another plan at once, warns, and fails where it is told to.
func watch(config config, monitor *connector.Monitor) error {
	monitor.Warn(connector.DataErrorf("moody.warning", "beware"))
	planned, err := plan(config, monitor.MaxTasks, monitor.Partitions())
	if err != nil {
		return err
	}
	for {
		monitor.Compare(planned)
		if config.Mode == "defect" {
			return errors.New("as it was told")
		}
		if !monitor.Wait(config.Every) {
			return nil
		}
	}
}

func dictionary() arrow.RecordBatch {
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "word", Type: kind}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	if err := builder.Field(0).AppendValueFromString("x"); err != nil {
		panic(err)
	}
	return builder.NewRecordBatch()
}

// hints offers a partition in the modes that stop at one, and tells what it was given.
func hints(values map[string]string) map[string]connector.KeyHint {
	switch values["mode"] {
	case "panic":
		panic("as it was told")
	case "nowhere":
		return map[string]connector.KeyHint{"no.key": {}}
	case "lost":
		_, told := values["password"]
		return map[string]connector.KeyHint{
			"keys": {RecommendedValues: []string{"a", values["every"]}}, "room": {Hidden: !told},
		}
	}
	return nil
}

// parse reads a number; in some modes it does what it must not.
func parse(_ context.Context, config config, rows []connector.RawRow) ([]connector.ParsedRow, error) {
	switch config.Mode {
	case "panic":
		panic("as it was told")
	case "lost":
		return nil, connector.Retriablef("moody.away", "the outside is away")
	case "uncovered":
		return nil, nil
	}
	var found []connector.ParsedRow
	for _, one := range rows {
		text := string(one.Raw)
		if changed, known := one.Changes["number"].(json.Number); known {
			text = changed.String()
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			reason := connector.DataErrorf("moody.row", "%q is no number", text).WithFix("Write 1.")
			found = append(found, connector.ParsedRow{Reason: reason})
			continue
		}
		made := connector.NewRows[row]()
		key := one.Partition["key"].(string)
		for range max(number, 1) { // of more than one, it makes as many rows, which are too many
			made.Append(&row{Number: number, Text: &key})
		}
		found = append(found, connector.ParsedRow{Batch: &connector.Batch{
			Rows: made.Take(), Dataset: one.Dataset, KeyColumns: []string{"number"},
		}})
	}
	return found, nil
}

func main() {
	connector.Serve(connector.Plugin{Version: "1.2.3"}, connector.SourceSpec[config]{
		Name: "moody-source", Bounded: true, Plan: plan, Check: check, Validate: validate, Monitor: watch,
		ParseRows: parse,
		New:       func() connector.Source[config] { return &moody{} }, KeyHints: hints,
	}, sink, stored, following)
}
