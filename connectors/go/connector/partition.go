package connector

import (
	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

// Partition is a unit of work with an offset of its own.
type Partition struct {
	// Key is its identity, for instance {"path": "/data/a.jsonl"}.
	Key Fields
	// Offset is where to go on; nil means from the beginning.
	Offset Fields
	// Payload is what the connector needs to read it; the host does not look into it.
	Payload []byte
	// Datasets it yields, when known.
	Datasets []string
	// Weight is its cost, relative to the other partitions; 0 counts as 1.
	Weight float64
	// Bounded: it ends.
	Bounded bool
	// FindsOthers: its task finds further partitions by itself. A plan with such a one has one
	// task, which is given back what it found before.
	FindsOthers bool
	// Range: its task finds those in this range by itself, and is given back what it found before.
	// nil: none.
	Range *PartitionRange
}

// PartitionRange is the partitions whose keys have in Field a text from Start on and before End, by
// their bytes. An empty End is no end. A key without the field is in no range.
type PartitionRange struct {
	Field, Start, End string
}

// Contains returns whether the partition with this key is in the range.
func (r PartitionRange) Contains(key Fields) bool {
	text, ok := key[r.Field].(string)
	return ok && r.Start <= text && (r.End == "" || text < r.End)
}

// ID returns the canonical JSON of the key. A key with a value that no key can have has none.
func (p Partition) ID() string {
	id, _ := CanonicalJSON(p.Key)
	return id
}

// PreparedTxn is a transaction that was prepared: State is the sink's own (at most 64 KiB), Token
// is what the host wants back.
type PreparedTxn struct {
	// TxnID is its number.
	TxnID uint64
	// Epoch prepared it.
	Epoch uint64
	// State and Token of it.
	State, Token []byte
}

func partitionToProto(partition Partition) (*recordv1.Partition, error) {
	id, err := CanonicalJSON(partition.Key)
	if err != nil {
		return nil, err
	}
	key, err := fieldsToProto(partition.Key)
	if err != nil {
		return nil, err
	}
	weight := partition.Weight
	if weight == 0 {
		weight = 1
	}
	message := &recordv1.Partition{
		PartitionId: id, Key: key, Payload: partition.Payload, Datasets: partition.Datasets,
		Weight: weight, Bounded: partition.Bounded, FindsOthers: partition.FindsOthers,
	}
	if r := partition.Range; r != nil {
		message.Range = &recordv1.PartitionRange{Field: r.Field, Start: r.Start, End: r.End}
	}
	if partition.Offset != nil {
		message.Offset, err = offsetToProto(partition.Offset)
	}
	return message, err
}

func partitionsToProto(partitions []Partition) ([]*recordv1.Partition, error) {
	messages := make([]*recordv1.Partition, 0, len(partitions))
	for _, partition := range partitions {
		message, err := partitionToProto(partition)
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, nil
}

// partitionFromProto returns the partition of a message; one named by id alone gets its key from
// the id.
func partitionFromProto(message *recordv1.Partition) (Partition, error) {
	partition := Partition{
		Key: fieldsFromProto(message.Key), Payload: message.Payload, Datasets: message.Datasets,
		Weight: message.Weight, Bounded: message.Bounded, FindsOthers: message.FindsOthers,
	}
	if partition.Weight == 0 {
		partition.Weight = 1
	}
	if r := message.Range; r != nil {
		partition.Range = &PartitionRange{r.Field, r.Start, r.End}
	}
	if message.Offset != nil {
		partition.Offset = offsetFromProto(message.Offset)
	}
	if message.PartitionId != "" && partition.ID() != message.PartitionId {
		key, err := parseCanonical(message.PartitionId)
		fields, ok := key.(Fields)
		if err != nil || !ok {
			return partition, Defectf("wire.partition_id", "%q is not a partition's id",
				cutText(message.PartitionId, 200))
		}
		partition.Key = fields
	}
	return partition, nil
}

func partitionsFromProto(messages []*recordv1.Partition) ([]Partition, error) {
	partitions := make([]Partition, 0, len(messages))
	for _, message := range messages {
		partition, err := partitionFromProto(message)
		if err != nil {
			return nil, err
		}
		partitions = append(partitions, partition)
	}
	return partitions, nil
}

func preparedToProto(txn PreparedTxn) *connectorv1.PreparedTxn {
	return &connectorv1.PreparedTxn{
		TxnId: txn.TxnID, Epoch: txn.Epoch, State: txn.State, Token: txn.Token,
	}
}

func preparedFromProto(message *connectorv1.PreparedTxn) *PreparedTxn {
	if message == nil {
		return nil
	}
	return &PreparedTxn{message.TxnId, message.Epoch, message.State, message.Token}
}
