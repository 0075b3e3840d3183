package connector

import (
	"fmt"
	"math"
	"reflect"
	"time"

	recordv1 "penstock/go/api/record/v1"
)

// Fields is a structured key or offset. Values are nil, bool, int64, float64, string, []byte,
// Decimal, Date, time.Time, []any and Fields; other integers are taken, too.
type Fields map[string]any

// Decimal is an exact decimal in text form.
type Decimal string

// Date is a calendar day.
type Date struct {
	// Year, Month and Day as people write them.
	Year  int
	Month time.Month
	Day   int
}

// String returns the date in ISO 8601.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Opaque is the one field of an offset that is the connector's own bytes.
const Opaque = "$opaque"

const secondsADay = 86400

// valueToProto returns the message for a value; nil is a message with no kind set.
func valueToProto(value any) (*recordv1.Value, error) {
	switch value := value.(type) {
	case nil:
		return &recordv1.Value{}, nil
	case bool:
		return &recordv1.Value{Kind: &recordv1.Value_BoolValue{BoolValue: value}}, nil
	case float64:
		return &recordv1.Value{Kind: &recordv1.Value_DoubleValue{DoubleValue: value}}, nil
	case string:
		return &recordv1.Value{Kind: &recordv1.Value_StringValue{StringValue: value}}, nil
	case []byte:
		return &recordv1.Value{Kind: &recordv1.Value_BytesValue{BytesValue: value}}, nil
	case Decimal:
		return &recordv1.Value{Kind: &recordv1.Value_DecimalValue{DecimalValue: string(value)}}, nil
	case time.Time:
		return &recordv1.Value{Kind: &recordv1.Value_TimestampUs{TimestampUs: value.UnixMicro()}}, nil
	case Date:
		return &recordv1.Value{Kind: &recordv1.Value_DateDays{DateDays: value.days()}}, nil
	case []any:
		return listToProto(value)
	case Fields:
		return structToProto(value)
	case map[string]any:
		return structToProto(value)
	}
	if number, ok := integerOf(value); ok {
		return &recordv1.Value{Kind: &recordv1.Value_IntValue{IntValue: number}}, nil
	}
	return nil, Defectf("connector.value", "%T cannot be part of a key or an offset", value).WithFix(
		"Use nil, bool, int64, float64, string, []byte, Decimal, Date, time.Time, []any or Fields.")
}

func listToProto(values []any) (*recordv1.Value, error) {
	list := &recordv1.ListValue{}
	for _, value := range values {
		item, err := valueToProto(value)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, item)
	}
	return &recordv1.Value{Kind: &recordv1.Value_ListValue{ListValue: list}}, nil
}

func structToProto(fields Fields) (*recordv1.Value, error) {
	inner, err := fieldsToProto(fields)
	if err != nil {
		return nil, err
	}
	message := &recordv1.StructValue{Fields: inner}
	return &recordv1.Value{Kind: &recordv1.Value_StructValue{StructValue: message}}, nil
}

func fieldsToProto(fields Fields) (map[string]*recordv1.Value, error) {
	messages := make(map[string]*recordv1.Value, len(fields))
	for name, value := range fields {
		message, err := valueToProto(value)
		if err != nil {
			return nil, err
		}
		messages[name] = message
	}
	return messages, nil
}

// valueFromProto returns the value of a message.
func valueFromProto(message *recordv1.Value) any {
	switch kind := message.GetKind().(type) {
	case *recordv1.Value_BoolValue:
		return kind.BoolValue
	case *recordv1.Value_IntValue:
		return kind.IntValue
	case *recordv1.Value_DoubleValue:
		return kind.DoubleValue
	case *recordv1.Value_StringValue:
		return kind.StringValue
	case *recordv1.Value_BytesValue:
		return kind.BytesValue
	case *recordv1.Value_DecimalValue:
		return Decimal(kind.DecimalValue)
	case *recordv1.Value_TimestampUs:
		return time.UnixMicro(kind.TimestampUs).UTC()
	case *recordv1.Value_DateDays:
		return dateOf(kind.DateDays)
	case *recordv1.Value_ListValue:
		items := make([]any, 0, len(kind.ListValue.Items))
		for _, item := range kind.ListValue.Items {
			items = append(items, valueFromProto(item))
		}
		return items
	case *recordv1.Value_StructValue:
		return fieldsFromProto(kind.StructValue.Fields)
	}
	return nil
}

func fieldsFromProto(messages map[string]*recordv1.Value) Fields {
	fields := make(Fields, len(messages))
	for name, message := range messages {
		fields[name] = valueFromProto(message)
	}
	return fields
}

// offsetToProto returns the message for an offset. A lone Opaque field is the connector's bytes.
func offsetToProto(offset Fields) (*recordv1.Offset, error) {
	if own, ok := offset[Opaque].([]byte); ok && len(offset) == 1 {
		return &recordv1.Offset{Opaque: own}, nil
	}
	fields, err := fieldsToProto(offset)
	return &recordv1.Offset{Fields: fields}, err
}

func offsetFromProto(message *recordv1.Offset) Fields {
	if len(message.Opaque) > 0 && len(message.Fields) == 0 {
		return Fields{Opaque: message.Opaque}
	}
	return fieldsFromProto(message.Fields)
}

func (d Date) days() int32 {
	return int32(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix() / secondsADay)
}

func dateOf(days int32) Date {
	year, month, day := time.Unix(int64(days)*secondsADay, 0).UTC().Date()
	return Date{year, month, day}
}

// integerOf returns any integer that fits into 64 bits with a sign.
func integerOf(value any) (int64, bool) {
	reflected := reflect.ValueOf(value)
	switch {
	case reflected.CanInt():
		return reflected.Int(), true
	case reflected.CanUint() && reflected.Uint() <= math.MaxInt64:
		return int64(reflected.Uint()), true
	}
	return 0, false
}
