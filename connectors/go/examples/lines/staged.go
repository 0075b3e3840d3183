package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"penstock/go/connector"
)

// move is a file that a commit makes visible.
type move struct {
	From, To string
}

// staged is a file of one part that does not count yet.
type staged struct {
	path string
	file *os.File
	out  *bufio.Writer
}

func newStaged(folder string, part connector.Part) (*staged, error) {
	pattern := fmt.Sprintf("%d-%d-%d-*", part.TxnID, part.Slot, part.Attempt)
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return nil, err
	}
	return &staged{file.Name(), file, bufio.NewWriterSize(file, 1<<20)}, nil
}

// Put writes rows as JSON lines.
func (s *staged) Put(rows arrow.RecordBatch) ([]connector.Refused, error) {
	return nil, array.RecordToJSON(rows, s.out)
}

// Close makes the file durable.
func (s *staged) Close() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return s.file.Close()
}

// Discard removes the file.
func (s *staged) Discard() error {
	_ = s.file.Close() // it may be closed already
	if err := os.Remove(s.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// finalName sorts as the transactions were written.
func finalName(task string, txnID uint64, number int) string {
	return fmt.Sprintf("%s-%012d-%03d.jsonl", task, txnID, number)
}

// nameOf returns a text that any file system takes.
func nameOf(taskID string) string { return hex.EncodeToString([]byte(taskID)) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// syncFolder makes names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
