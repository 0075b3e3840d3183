package connector

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	recordv1 "penstock/go/api/record/v1"
)

const allSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

var memoryFileName = regexp.MustCompile(`^penstock-[0-9a-f]{32}$`)

// newMemoryFile returns a sealed file with these bytes; nil where the system has no room for it.
// Half of the descriptors that the process may have are left to everything else.
func newMemoryFile(data []byte) *memoryFile {
	var random [16]byte
	rand.Read(random[:])
	name := "penstock-" + hex.EncodeToString(random[:])
	descriptor, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	if err := fill(descriptor, data); err != nil {
		unix.Close(descriptor)
		return nil
	}
	return &memoryFile{&recordv1.MemoryFile{
		ProcessId: uint32(os.Getpid()), Descriptor_: uint32(descriptor), Bytes: uint64(len(data)), Name: name,
	}}
}

func fill(descriptor int, data []byte) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if uint64(descriptor) > limit.Cur/2 {
		return unix.EMFILE
	}
	for len(data) > 0 {
		written, err := unix.Write(descriptor, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		data = data[max(written, 0):]
	}
	_, err := unix.FcntlInt(uintptr(descriptor), unix.F_ADD_SEALS, allSeals)
	return err
}

// read returns the bytes of the file.
func (f *memoryFile) read() ([]byte, error) {
	return readBytes(int(f.message.Descriptor_), f.message.Bytes)
}

// close frees the memory, unless another process just copies it.
func (f *memoryFile) close() { unix.Close(int(f.message.Descriptor_)) }

// readMemoryFile returns a copy of the bytes in a file of another process.
func readMemoryFile(message *recordv1.MemoryFile) ([]byte, error) {
	if !memoryFileName.MatchString(message.Name) {
		return nil, brokenMemoryFile("a memory file is called %.60q", message.Name)
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", message.ProcessId, message.Descriptor_)
	// looked at before it is opened, since opening a device or a pipe may have effects
	if err := requireLink(path, message.Name); err != nil {
		return nil, err
	}
	descriptor, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Retriablef("wire.memory_file.gone", "%s: %s", path, err)
	}
	defer unix.Close(descriptor)
	// the number may be another file's now
	if err := requireLink(fmt.Sprintf("/proc/self/fd/%d", descriptor), message.Name); err != nil {
		return nil, err
	}
	var status unix.Stat_t
	if err := unix.Fstat(descriptor, &status); err != nil {
		return nil, err
	}
	if int(status.Uid) != os.Geteuid() {
		return nil, brokenMemoryFile("%s belongs to user %d", path, status.Uid)
	}
	seals, err := unix.FcntlInt(uintptr(descriptor), unix.F_GET_SEALS, 0)
	if err != nil || seals&allSeals != allSeals {
		return nil, brokenMemoryFile("%s is not sealed", path)
	}
	if uint64(status.Size) != message.Bytes {
		return nil, brokenMemoryFile("%s has %d bytes, and was announced with %d", path, status.Size, message.Bytes)
	}
	return readBytes(descriptor, message.Bytes)
}

func requireLink(path, name string) error {
	found, err := os.Readlink(path)
	if err != nil {
		return Retriablef("wire.memory_file.gone", "%s", err)
	}
	if found != "/memfd:"+name+" (deleted)" { // closed since, and the number used again
		return Retriablef("wire.memory_file.gone", "%s is %.200q, not the memory file that was named", path, found)
	}
	return nil
}

func readBytes(descriptor int, size uint64) ([]byte, error) {
	data := make([]byte, size)
	for done := 0; done < len(data); {
		count, err := unix.Pread(descriptor, data[done:], int64(done))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if count == 0 && err == nil {
			return nil, brokenMemoryFile("a memory file ends after %d of %d bytes", done, size)
		}
		done += max(count, 0)
	}
	return data, nil
}

var ownFile = sync.OnceValue(func() *memoryFile { return newMemoryFile([]byte(sdkName)) })

// ownMemoryFile returns a file of this process that stays open, by which others find out whether
// they can read those with rows; nil where it can have none.
func ownMemoryFile() *recordv1.MemoryFile {
	if file := ownFile(); file != nil {
		return file.message
	}
	return nil
}
