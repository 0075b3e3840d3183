package connector

// held is an announced batch: its bytes against the credit, and the frames that answer Fetch, with
// its rows or with the memory file that has them.
type held struct {
	size        int64
	frames      func() ([]frame, error)
	file        *memoryFile
	memoryFrame frame
}

// close frees its memory.
func (h held) close() {
	if h.file != nil {
		h.file.close()
	}
}

// window is what a task holds ready: byte credit over batches that can be fetched. Every announced
// batch uses up credit until the host releases it (rule R9): so the memory of a task is bounded by
// what the host granted. Not for several goroutines: the owner has a lock.
type window struct {
	batches     map[uint64]held
	bytesLeft   int64
	batchesLeft int64
	counts      bool // the host bounds batches, not only bytes
	first, last uint64
}

func newWindow() *window { return &window{batches: map[uint64]held{}, first: 1} }

// grant takes credit. A host that never grants batches bounds only bytes.
func (w *window) grant(bytes uint64, batches uint32) {
	w.bytesLeft += int64(bytes)
	if batches > 0 {
		w.counts = true
		w.batchesLeft += int64(batches)
	}
}

// hasRoom tells whether one more batch may be announced. It may be larger than what is left: one
// batch may overdraw, so that a big row cannot block the task for ever.
func (w *window) hasRoom() bool {
	return w.bytesLeft > 0 && (!w.counts || w.batchesLeft > 0)
}

// hold keeps a batch under the next number; numbers have no gaps (rule R8).
func (w *window) hold(batch held) {
	w.last++
	w.batches[w.last] = batch
	w.bytesLeft -= batch.size
	w.batchesLeft--
}

// release lets all batches up to a number go: what they used up of the credit comes back.
func (w *window) release(seq uint64) {
	for ; w.first <= min(seq, w.last); w.first++ {
		w.batches[w.first].close()
		w.bytesLeft += w.batches[w.first].size
		w.batchesLeft++
		delete(w.batches, w.first)
	}
}

// close frees the memory of all batches.
func (w *window) close() {
	for seq, batch := range w.batches {
		batch.close()
		delete(w.batches, seq)
	}
}

// frames returns the frames of a batch; the same ones every time until it is released.
func (w *window) frames(seq uint64, memoryFiles bool) ([]frame, error) {
	if batch, found := w.batches[seq]; found {
		if memoryFiles && batch.file != nil {
			return []frame{batch.memoryFrame}, nil
		}
		return batch.frames()
	}
	if seq > w.last {
		return nil, Defectf("source.batch.unannounced", "batch %d was not announced yet", seq)
	}
	return nil, Retriablef("source.batch.released", "batch %d was released and is gone", seq).
		WithFix("Reopen the task from its stored offsets.")
}
