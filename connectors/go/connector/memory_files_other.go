//go:build !linux

package connector

import recordv1 "penstock/go/api/record/v1"

// Only Linux has memory files.

func newMemoryFile([]byte) *memoryFile { return nil }

func (f *memoryFile) read() ([]byte, error) { return readMemoryFile(f.message) }

func (f *memoryFile) close() {}

func readMemoryFile(*recordv1.MemoryFile) ([]byte, error) {
	return nil, Retriablef("wire.memory_file.gone", "this system has no memory files")
}

func ownMemoryFile() *recordv1.MemoryFile { return nil }
