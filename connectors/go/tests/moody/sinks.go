package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"penstock/go/connector"
)

type sinkConfig struct {
	Folder string `required:"true" doc:"Where it writes."`
}

// checked is a simple sink that refuses rows with a negative id. When it writes, it names rows with an
// id of 13, and fails for a batch that has an id of 17, or 19 for a while.
type checked struct {
	connector.Base[sinkConfig]
	file *os.File
}

func (c *checked) Connect(context.Context) (err error) {
	c.file, err = os.Create(filepath.Join(c.Config.Folder, "rows"))
	return err
}

func (c *checked) CheckBatch(_ string, rows arrow.RecordBatch) []connector.Refused {
	var refused []connector.Refused
	ids := rows.Column(0).(*array.Int64)
	for row := range ids.Len() {
		if ids.Value(row) < 0 {
			refused = append(refused, connector.Refused{
				Row: row, Reason: connector.DataErrorf("moody.negative", "an id is negative"),
			})
		}
	}
	if ids.Len() == 1 && ids.Value(0) == 0 {
		return []connector.Refused{{Row: 0}} // without a reason
	}
	return refused
}

func (c *checked) ApplySchema(dataset string, _ *arrow.Schema, _ []string) ([]string, error) {
	if dataset == "refused" {
		return nil, connector.SchemaErrorf("moody.schema", "no such rows here")
	}
	return []string{"made " + dataset}, nil
}

func (c *checked) Columns(dataset string) (*arrow.Schema, error) {
	if dataset != "orders" {
		return nil, nil
	}
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil), nil
}

func (c *checked) WriteBatch(ctx context.Context, _ string, rows arrow.RecordBatch) error {
	if err := sawTrace(c.Config.Folder, "WriteBatch", connector.TraceParent(ctx)); err != nil {
		return err
	}
	ids := rows.Column(0).(*array.Int64)
	var failed connector.FailedRows
	for row := range ids.Len() {
		switch ids.Value(row) {
		case 13:
			failed = append(failed, connector.Refused{Row: row, Reason: connector.DataErrorf("moody.named", "13")})
		case 17:
			return connector.DataErrorf("moody.some", "one of these is 17")
		case 19:
			return connector.Retriablef("moody.busy", "not now")
		}
	}
	if failed == nil {
		return array.RecordToJSON(rows, c.file)
	}
	for row := range ids.Len() {
		if ids.Value(row) != 13 {
			if err := array.RecordToJSON(rows.NewSlice(int64(row), int64(row)+1), c.file); err != nil {
				return err
			}
		}
	}
	return failed
}

func (c *checked) Flush(context.Context) error { return c.file.Sync() }

var sink = connector.SinkSpec[sinkConfig]{
	Name: "moody-sink", Idempotent: true, StagingBytes: 1 << 20,
	New: func() connector.Sink[sinkConfig] { return &checked{} },
	AlterOffsets: func(_ sinkConfig, wanted []connector.Partition, dryRun bool) ([]connector.Partition, error) {
		for _, partition := range wanted {
			if partition.Offset != nil && partition.Offset["offset"].(int64) > 100 {
				return nil, connector.ConfigErrorf("moody.late", "no row is that late")
			}
		}
		if dryRun {
			return wanted, nil
		}
		return wanted[:1], nil // as it must not
	},
}

// keeper is a sink that stores the token with its rows: the sink is the authority.
type keeper struct {
	connector.Base[sinkConfig]
	pending map[uint64]keptTxn
}

type keptTxn struct {
	ID, Epoch uint64
	Token     []byte
	Rows      int64
}

type counted struct{ rows int64 }

func (c *counted) Put(rows arrow.RecordBatch) ([]connector.Refused, error) {
	c.rows += rows.NumRows()
	return nil, nil
}

func (*counted) Close() error { return nil }

func (*counted) Discard() error { return nil }

func (k *keeper) place() string { return filepath.Join(k.Config.Folder, "txn.json") }

func (k *keeper) Connect(context.Context, string, uint64) error {
	k.pending = map[uint64]keptTxn{}
	return nil
}

func (k *keeper) Stage(connector.Part) (connector.Staging, error) { return &counted{}, nil }

func (k *keeper) Prepare(txn connector.Txn) ([]byte, error) {
	kept := keptTxn{ID: txn.ID, Epoch: txn.Epoch, Token: txn.Token}
	for _, staged := range txn.Staged {
		kept.Rows += staged.(*counted).rows
	}
	k.pending[txn.ID] = kept
	if kept.Rows == 13 {
		return make([]byte, 65<<10), nil // more than a host stores
	}
	return nil, nil
}

func (k *keeper) Commit(txnID, _ uint64, _ []byte) error {
	text, err := json.Marshal(k.pending[txnID])
	if err != nil {
		return err
	}
	return os.WriteFile(k.place(), text, 0o600)
}

func (k *keeper) Committed() (*connector.PreparedTxn, error) {
	text, err := os.ReadFile(k.place())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept keptTxn
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, err
	}
	return &connector.PreparedTxn{TxnID: kept.ID, Epoch: kept.Epoch, Token: kept.Token}, nil
}

var stored = connector.TransactionalSpec[sinkConfig]{
	Name: "moody-keeper", Modes: []connector.CommitMode{connector.CommitSink},
	New: func() connector.TransactionalSink[sinkConfig] { return &keeper{} },
}
