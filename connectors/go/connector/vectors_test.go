package connector

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/proto"

	recordv1 "penstock/go/api/record/v1"
)

const vectors = "../../../proto/vectors"

func fileOf(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectorOf(t *testing.T, name string) (decoder, arrow.RecordBatch) {
	t.Helper()
	head := fileOf(t, name+".schema")
	schema, err := decodeSchema(head)
	if err != nil {
		t.Fatal(err)
	}
	reader := decoder{schema, head}
	rows, err := reader.rows(fileOf(t, name+".arrow"))
	if err != nil {
		t.Fatal(err)
	}
	return reader, rows
}

func TestBatchesSayWhatTheirJSONLinesSay(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(vectors, "*.schema"))
	if err != nil || len(names) < 9 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".schema")
		t.Run(name, func(t *testing.T) {
			reader, rows := vectorOf(t, name)
			expected := string(fileOf(t, name+".jsonl"))
			if said := linesOf(rows); said != expected {
				t.Errorf("read %s\nexpected %s", said, expected)
			}
			again, err := encodeRows(rows, 0)
			if err != nil {
				t.Fatal(err)
			}
			back, err := reader.rows(again)
			if err != nil {
				t.Fatal(err)
			}
			if said := linesOf(back); said != expected {
				t.Errorf("written and read %s\nexpected %s", said, expected)
			}
		})
	}
}

func TestOneDigitWouldBeSeen(t *testing.T) {
	_, rows := vectorOf(t, "integers")
	other := strings.Replace(linesOf(rows), "9007199254740993", "9007199254740992", 1)
	if other == string(fileOf(t, "integers.jsonl")) {
		t.Error("a wrong digit was not seen")
	}
}

func TestABatchThatWasCutShortIsRefused(t *testing.T) {
	reader, _ := vectorOf(t, "nested")
	data := fileOf(t, "nested.arrow")
	for _, length := range []int{0, 3, 8, 100, len(data) - 8} {
		if _, err := reader.rows(data[:length]); err == nil {
			t.Errorf("%d of %d bytes were taken for rows", length, len(data))
		}
	}
}

func TestPartitionsAndOffsetsAreReadTheSame(t *testing.T) {
	var entries []struct{ ID, Partition string }
	if err := json.Unmarshal(fileOf(t, "offsets.json"), &entries); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := base64.StdEncoding.DecodeString(entry.Partition)
		if err != nil {
			t.Fatal(err)
		}
		message := &recordv1.Partition{}
		if err := proto.Unmarshal(data, message); err != nil {
			t.Fatal(err)
		}
		partition, err := partitionFromProto(message)
		if err != nil {
			t.Fatal(err)
		}
		if id := partition.ID(); id != entry.ID {
			t.Errorf("the id is %s, expected %s", id, entry.ID)
		}
		back, err := partitionToProto(partition)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(back, message) {
			t.Errorf("written %v\nexpected %v", back, message)
		}
		byID, err := partitionFromProto(&recordv1.Partition{PartitionId: entry.ID})
		if err != nil || byID.ID() != entry.ID {
			t.Errorf("named by id alone: %s, %v, expected %s", byID.ID(), err, entry.ID)
		}
	}
}

// linesOf returns rows as JSON lines, in the one form that the vectors have.
func linesOf(rows arrow.RecordBatch) string {
	var out strings.Builder
	for row := range int(rows.NumRows()) {
		out.WriteByte('{')
		for column, values := range rows.Columns() {
			if column > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, "%s:%s", quoted(rows.ColumnName(column)), cell(values, row))
		}
		out.WriteString("}\n")
	}
	return out.String()
}

func cell(values arrow.Array, row int) string {
	if values.IsNull(row) {
		return "null"
	}
	switch values := values.(type) {
	case *array.Float32:
		return floating(float64(values.Value(row)))
	case *array.Float64:
		return floating(values.Value(row))
	case *array.String:
		return quoted(values.Value(row))
	case *array.Binary:
		return quoted(base64.StdEncoding.EncodeToString(values.Value(row)))
	case *array.Date32:
		return quoted(values.Value(row).ToTime().Format(time.DateOnly))
	case *array.Time64:
		return quoted(values.Value(row).ToTime(arrow.Microsecond).Format("15:04:05.000000"))
	case *array.Duration:
		return strconv.FormatInt(int64(values.Value(row)), 10)
	case *array.Timestamp:
		return moment(values, row)
	case *array.Decimal128:
		return quoted(values.Value(row).ToString(values.DataType().(*arrow.Decimal128Type).Scale))
	case *array.Decimal256:
		return quoted(values.Value(row).ToString(values.DataType().(*arrow.Decimal256Type).Scale))
	}
	return nestedCell(values, row)
}

func nestedCell(values arrow.Array, row int) string {
	switch values := values.(type) {
	case *array.Map: // before lists: it is one
		start, end := values.ValueOffsets(row)
		return items(int(start), int(end), func(at int) string {
			return fmt.Sprintf(`{"key":%s,"value":%s}`, cell(values.Keys(), at), cell(values.Items(), at))
		})
	case *array.List:
		start, end := values.ValueOffsets(row)
		return items(int(start), int(end), func(at int) string { return cell(values.ListValues(), at) })
	case *array.Struct:
		fields := values.DataType().(*arrow.StructType).Fields()
		var parts []string
		for at, field := range fields {
			parts = append(parts, quoted(field.Name)+":"+cell(values.Field(at), row))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return values.ValueStr(row) // integers and truth
}

func items(start, end int, one func(at int) string) string {
	parts := []string{}
	for at := start; at < end; at++ {
		parts = append(parts, one(at))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func moment(values *array.Timestamp, row int) string {
	kind := values.DataType().(*arrow.TimestampType)
	layout := "2006-01-02T15:04:05" + map[arrow.TimeUnit]string{
		arrow.Second: "", arrow.Millisecond: ".000", arrow.Microsecond: ".000000",
		arrow.Nanosecond: ".000000000",
	}[kind.Unit]
	text := values.Value(row).ToTime(kind.Unit).UTC().Format(layout)
	if kind.TimeZone != "" {
		text += "Z"
	}
	return quoted(text)
}

func floating(number float64) string {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return quoted(floatText(number))
	}
	return floatText(number)
}

func quoted(text string) string {
	var out strings.Builder
	writeQuoted(&out, text)
	return out.String()
}

func TestAnErrorFitsIntoMetadata(t *testing.T) {
	long := Defectf("a.b", "%s", strings.Repeat("ä", 5000)).diagnostic()
	if len(long.Message) > textMost || !bytes.HasSuffix([]byte(long.Message), []byte("ä")) {
		t.Errorf("%d bytes", len(long.Message))
	}
}
