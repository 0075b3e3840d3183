package connector

import recordv1 "penstock/go/api/record/v1"

// smallestInMemory is the bytes of the smallest batch that goes into a memory file: below, its
// system calls cost as much as the socket.
const smallestInMemory = 128 << 10

// mostShown is the bytes of a file by which a process shows that its files can be opened.
const mostShown = 4096

// memoryFile is a batch in shared memory: a memory file of Linux that this process writes, and
// another one of the same machine copies. In a message of gRPC the rows are copied some six times
// on their way. The file has no name in any folder, so nothing is left of it when its owner dies.
type memoryFile struct {
	message *recordv1.MemoryFile // how others find it
}

// memoryFileOf returns a file with a batch; nil when it is small, or there is no room.
func memoryFileOf(data []byte) *memoryFile {
	if len(data) < smallestInMemory {
		return nil
	}
	return newMemoryFile(data)
}

// canRead tells whether memory files of the process that sent this one can be read here.
func canRead(message *recordv1.MemoryFile) bool {
	if message == nil || message.Bytes > mostShown {
		return false
	}
	_, err := readMemoryFile(message)
	return err == nil
}

// dataOf returns the data of a frame, from its memory file when it has one: then it is no chunk.
func dataOf(batch *recordv1.Batch) ([]byte, error) {
	if batch.MemoryFile == nil {
		return batch.GetData(), nil
	}
	if len(batch.GetData()) > 0 || batch.Chunk > 0 || batch.MoreChunks {
		return nil, brokenMemoryFile("batch %d has rows beside its memory file", batch.Seq)
	}
	return readMemoryFile(batch.MemoryFile)
}

func brokenMemoryFile(format string, args ...any) *Error {
	return Defectf("wire.memory_file.broken", format, args...)
}
