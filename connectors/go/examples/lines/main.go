// Command lines is a plugin with a sink that writes files of JSON lines, exactly once.
package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"penstock/go/connector"
)

type config struct {
	Folder string `required:"true" doc:"Folder of the files, one a transaction and part."`
}

// lines writes rows into a hidden folder first. Prepare makes them safe there; Commit moves them,
// which is done once however often it is asked for.
type lines struct {
	connector.Base[config]
	task  string
	files float64
}

// Metrics tells how many files were made: people see it at /metrics.
func (l *lines) Metrics() map[string]float64 {
	return map[string]float64{"files_total": l.files}
}

// Connect makes the folders.
func (l *lines) Connect(_ context.Context, taskID string, _ uint64) error {
	l.task = nameOf(taskID)
	return os.MkdirAll(l.hidden(), 0o755)
}

func (l *lines) hidden() string { return filepath.Join(l.Config.Folder, ".staged", l.task) }

// Stage returns a file for one part, which readers do not see.
func (l *lines) Stage(part connector.Part) (connector.Staging, error) {
	return newStaged(l.hidden(), part)
}

// Prepare has safe files already: closing them was it. The state is their names.
func (l *lines) Prepare(txn connector.Txn) ([]byte, error) {
	moves := []move{}
	for number, staging := range txn.Staged {
		moves = append(moves, move{
			From: filepath.Base(staging.(*staged).path), To: finalName(l.task, txn.ID, number),
		})
	}
	if err := syncFolder(l.hidden()); err != nil {
		return nil, err
	}
	return json.Marshal(moves)
}

// Commit makes the files visible. One that is moved already is left alone.
func (l *lines) Commit(_, _ uint64, state []byte) error {
	var moves []move
	if err := json.Unmarshal(state, &moves); err != nil {
		return err
	}
	for _, one := range moves {
		err := os.Rename(filepath.Join(l.hidden(), one.From), filepath.Join(l.Config.Folder, one.To))
		if err != nil && !exists(filepath.Join(l.Config.Folder, one.To)) {
			return err
		}
		l.files++
	}
	return syncFolder(l.Config.Folder)
}

// Sweep removes what dead attempts left.
func (l *lines) Sweep(uint64) error {
	if err := os.RemoveAll(l.hidden()); err != nil {
		return err
	}
	return os.MkdirAll(l.hidden(), 0o755)
}

var sink = connector.TransactionalSpec[config]{
	Name:  "go-lines",
	Title: "Files of JSON lines, exactly once.",
	New:   func() connector.TransactionalSink[config] { return &lines{} },
}

func main() {
	connector.Serve(connector.Plugin{Name: "go-lines", Version: "0.1.0"}, sink)
}
