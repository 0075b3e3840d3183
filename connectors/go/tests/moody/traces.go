package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"penstock/go/connector"
)

// traced is a sink that writes down which traces it sees.
type traced struct {
	connector.Base[sinkConfig]
}

func (*traced) Connect(context.Context, string, uint64) error { return nil }

func (t *traced) Stage(part connector.Part) (connector.Staging, error) {
	return &counted{}, sawTrace(t.Config.Folder, "Stage", part.TraceParent)
}

func (t *traced) Prepare(txn connector.Txn) ([]byte, error) {
	return nil, sawTrace(t.Config.Folder, "Prepare", txn.TraceParent)
}

func (*traced) Commit(uint64, uint64, []byte) error { return nil }

// sawTrace appends a line to the file of traces: who saw which.
func sawTrace(folder, who, parent string) error {
	file, err := os.OpenFile(
		filepath.Join(folder, "traces"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %s\n", who, parent)
	return err
}

var following = connector.TransactionalSpec[sinkConfig]{
	Name: "moody-traced",
	Check: func(ctx context.Context, config sinkConfig) error {
		return sawTrace(config.Folder, "Check", connector.TraceParent(ctx))
	},
	New: func() connector.TransactionalSink[sinkConfig] { return &traced{} },
}
