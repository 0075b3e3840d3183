package connector

import (
	"context"
	"encoding/json"
	"strings"

	connectorv1 "penstock/go/api/connector/v1"
	recordv1 "penstock/go/api/record/v1"
)

// RawRow is a row that could not be read, to be read again.
type RawRow struct {
	// Raw is its bytes: those of its BadRow, or what a user made of them.
	Raw []byte
	// Partition is the key of the partition that it is from.
	Partition Fields
	// Dataset is that of its batch.
	Dataset string
	// Changes are columns to set before the bytes are read; nil for no value. A text stands for the
	// value that the column would have with these characters; numbers are json.Number.
	Changes map[string]any
}

// ParsedRow is a batch of one row, or why its bytes are none.
type ParsedRow struct {
	// Batch has exactly this row, with the columns and types that ReadBatch gives. Its partition and
	// offset are not used.
	Batch *Batch
	// Reason says why there is no row.
	Reason *Error
}

type parses func(ctx context.Context, config any, rows []RawRow) ([]ParsedRow, error)

// parsesOf returns the ParseRows of a spec without the type of its configuration.
func parsesOf[C any](parse func(context.Context, C, []RawRow) ([]ParsedRow, error)) parses {
	if parse == nil {
		return nil
	}
	return func(ctx context.Context, config any, rows []RawRow) ([]ParsedRow, error) {
		return parse(ctx, config.(C), rows)
	}
}

// ParseRows reads single rows from their bytes.
func (r *reading) ParseRows(
	ctx context.Context, request *connectorv1.ParseRowsRequest,
) (*connectorv1.ParseRowsResponse, error) {
	kind, err := r.connectors.find(request.Target.GetConnector(), sources)
	if err != nil {
		return nil, err
	}
	if kind.parse == nil {
		return r.UnimplementedSourceServiceServer.ParseRows(ctx, request)
	}
	config, err := kind.configure(request.Target, nil)
	if err != nil {
		return nil, err
	}
	rows := make([]RawRow, 0, len(request.Rows))
	for _, message := range request.Rows {
		row, err := rawRow(message)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	var found []ParsedRow
	failure := guard(kind.name+".ParseRows", func() (err error) {
		found, err = kind.parse(ctx, config, rows)
		return err
	})
	if failure != nil {
		return nil, failure
	}
	if len(found) != len(rows) {
		return nil, Defectf("source.parse.count", "%s returned %d results for %d rows",
			kind.name, len(found), len(rows)).
			WithFix("Return a batch or a reason for each row, in their order.")
	}
	response := &connectorv1.ParseRowsResponse{}
	for _, one := range found {
		response.Rows = append(response.Rows, parsedRow(one))
	}
	return response, nil
}

func rawRow(message *connectorv1.RawRow) (RawRow, error) {
	row := RawRow{Raw: message.Raw, Dataset: message.Dataset}
	key, err := parseCanonical(message.PartitionId)
	fields, known := key.(Fields)
	if err != nil || !known {
		return row, Defectf("wire.partition_id", "%q is not a partition's id",
			cutText(message.PartitionId, 200))
	}
	row.Partition = fields
	if message.SetJson == "" {
		return row, nil
	}
	decoder := json.NewDecoder(strings.NewReader(message.SetJson))
	decoder.UseNumber()
	if err := decoder.Decode(&row.Changes); err != nil {
		return row, Defectf("wire.set_json", "the values to set are no JSON object: %v", err)
	}
	return row, nil
}

// parsedRow returns a result on the wire; what is wrong with a row is about this row alone.
func parsedRow(found ParsedRow) *connectorv1.ParsedRow {
	reason := found.Reason
	if found.Batch != nil && reason == nil {
		message := &connectorv1.ParsedRow{}
		reason = guard("ParseRows", func() (err error) {
			message.Schema, message.Row, err = wholeRow(found.Batch)
			return err
		})
		if reason == nil {
			return message
		}
	}
	return &connectorv1.ParsedRow{Reason: reason.diagnostic()}
}

func wholeRow(batch *Batch) (*recordv1.Schema, *recordv1.Batch, error) {
	count := int64(0)
	if batch.Rows != nil {
		defer batch.Rows.Release()
		count = batch.Rows.NumRows()
	}
	if count != 1 {
		return nil, nil, Defectf("source.parse.count", "a row was read as %d rows", count).
			WithFix("Give the bytes of exactly one row.")
	}
	id, schema, err := newSchemas().idOf(batch.Dataset, batch.Rows.Schema(), batch.KeyColumns)
	if err != nil {
		return nil, nil, err
	}
	data, err := encodeRows(batch.Rows, 0)
	return schema, &recordv1.Batch{
		Seq: 1, SchemaId: id, Rows: 1, Encoding: recordv1.Encoding_ENCODING_ARROW_IPC, Data: data,
	}, err
}
