package connector

import "strings"

// openMost is how many checkpoints may wait for Committed. Credit bounds those with rows; this
// bounds a source that moves its offset without any.
const openMost = 10_000

type waiting struct {
	id          uint64
	partitionID string
	offset      Fields
}

// checkpoints are the places where the host may commit: numbered, counted, and acknowledged in
// order. Not for several goroutines: the owner has a lock.
type checkpoints struct {
	last      uint64
	committed uint64
	rows      uint64
	moved     map[string]bool
	waiting   []waiting
}

// announced counts rows that the next checkpoint covers.
func (c *checkpoints) announced(partitionID string, rows uint64) {
	if c.moved == nil {
		c.moved = map[string]bool{}
	}
	c.rows += rows
	c.moved[partitionID] = true
}

// add takes the next checkpoint, and returns the rows since the one before.
func (c *checkpoints) add(partitionID string, offset Fields) (uint64, error) {
	delete(c.moved, partitionID)
	if err := c.refuseUncovered(); err != nil {
		return 0, err
	}
	rows := c.rows
	c.rows = 0
	c.last++
	c.waiting = append(c.waiting, waiting{c.last, partitionID, offset})
	return rows, nil
}

// refuseUncovered refuses rows that no offset of their partition follows: a commit would make them
// visible and not move their offset, so that they would come twice.
func (c *checkpoints) refuseUncovered() error {
	if len(c.moved) == 0 {
		return nil
	}
	return Defectf("source.rows_without_offset",
		"rows of %s were given that no offset of their partition follows",
		strings.Join(sortedKeys(c.moved), ", ")).
		WithFix("Set Batch.Offset on the last batch before another partition's, or the end.")
}

// commit takes note that all up to this are durable; cumulative (rule R2).
func (c *checkpoints) commit(id uint64) { c.committed = max(c.committed, min(id, c.last)) }

// takeAcks returns the offsets that became durable since the last call, the latest of each.
func (c *checkpoints) takeAcks() map[string]Fields {
	var offsets map[string]Fields
	done := 0
	for ; done < len(c.waiting) && c.waiting[done].id <= c.committed; done++ {
		if offsets == nil {
			offsets = map[string]Fields{}
		}
		offsets[c.waiting[done].partitionID] = c.waiting[done].offset
	}
	c.waiting = append(c.waiting[:0], c.waiting[done:]...)
	return offsets
}

func (c *checkpoints) hasAcks() bool {
	return len(c.waiting) > 0 && c.waiting[0].id <= c.committed
}

func (c *checkpoints) allAcked() bool { return len(c.waiting) == 0 }

func (c *checkpoints) hasRoom() bool { return len(c.waiting) < openMost }
