package connector

import (
	"reflect"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Rows builds Arrow columns of structs of the type T. Each exported field is a column: named by its
// tag column, else by its name in lower case. Types are bool, the integers and floats, string,
// []byte, time.Time, Date, and pointers to them, which may be nil for null. For other types, use
// the builders of Arrow, and set Batch.Rows.
type Rows[T any] struct {
	builder *array.RecordBuilder
	appends []func(reflect.Value)
	count   int
	most    int
}

// NewRows returns a builder; keep it for the life of a task. It panics on a field whose type it
// does not know: that is a defect that shows at the first run.
func NewRows[T any]() *Rows[T] {
	shape := reflect.TypeFor[T]()
	var fields []arrow.Field
	var at []int
	for index := range shape.NumField() {
		field := shape.Field(index)
		if !field.IsExported() {
			continue
		}
		name := field.Tag.Get("column")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		column, nullable := columnOf(field.Type)
		if column == nil {
			panic("connector.NewRows: column " + name + ": " + field.Type.String() + " is not supported")
		}
		fields = append(fields, arrow.Field{Name: name, Type: column, Nullable: nullable})
		at = append(at, index)
	}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	rows := &Rows[T]{builder: builder}
	for column, index := range at {
		take := appender(builder.Field(column))
		pointer := shape.Field(index).Type.Kind() == reflect.Pointer
		null := builder.Field(column).AppendNull
		rows.appends = append(rows.appends, func(row reflect.Value) {
			value := row.Field(index)
			if pointer {
				if value.IsNil() {
					null()
					return
				}
				value = value.Elem()
			}
			take(value)
		})
	}
	return rows
}

// Append adds a row.
func (r *Rows[T]) Append(row *T) {
	if r.count == 0 && r.most > 0 {
		r.builder.Reserve(r.most)
	}
	value := reflect.ValueOf(row).Elem()
	for _, take := range r.appends {
		take(value)
	}
	r.count++
}

// Len returns how many rows there are.
func (r *Rows[T]) Len() int { return r.count }

// Take returns the rows, for Batch.Rows, and begins anew.
func (r *Rows[T]) Take() arrow.RecordBatch {
	r.most = max(r.most, r.count)
	r.count = 0
	return r.builder.NewRecordBatch()
}

var columnTypes = map[reflect.Kind]arrow.DataType{
	reflect.Bool:    arrow.FixedWidthTypes.Boolean,
	reflect.Int8:    arrow.PrimitiveTypes.Int8,
	reflect.Int16:   arrow.PrimitiveTypes.Int16,
	reflect.Int32:   arrow.PrimitiveTypes.Int32,
	reflect.Int64:   arrow.PrimitiveTypes.Int64,
	reflect.Int:     arrow.PrimitiveTypes.Int64,
	reflect.Uint8:   arrow.PrimitiveTypes.Uint8,
	reflect.Uint16:  arrow.PrimitiveTypes.Uint16,
	reflect.Uint32:  arrow.PrimitiveTypes.Uint32,
	reflect.Uint64:  arrow.PrimitiveTypes.Uint64,
	reflect.Float32: arrow.PrimitiveTypes.Float32,
	reflect.Float64: arrow.PrimitiveTypes.Float64,
	reflect.String:  arrow.BinaryTypes.String,
}

func columnOf(field reflect.Type) (column arrow.DataType, nullable bool) {
	if field.Kind() == reflect.Pointer {
		field, nullable = field.Elem(), true
	}
	switch field {
	case reflect.TypeFor[time.Time]():
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nullable
	case reflect.TypeFor[Date]():
		return arrow.FixedWidthTypes.Date32, nullable
	case reflect.TypeFor[[]byte]():
		return arrow.BinaryTypes.Binary, nullable
	}
	if column, found := columnTypes[field.Kind()]; found {
		return column, nullable
	}
	return nil, false
}

// appender returns what adds a value to a column.
func appender(builder array.Builder) func(reflect.Value) {
	switch builder := builder.(type) {
	case *array.BooleanBuilder:
		return func(value reflect.Value) { builder.Append(value.Bool()) }
	case *array.Int8Builder:
		return func(value reflect.Value) { builder.Append(int8(value.Int())) }
	case *array.Int16Builder:
		return func(value reflect.Value) { builder.Append(int16(value.Int())) }
	case *array.Int32Builder:
		return func(value reflect.Value) { builder.Append(int32(value.Int())) }
	case *array.Int64Builder:
		return func(value reflect.Value) { builder.Append(value.Int()) }
	case *array.Uint8Builder:
		return func(value reflect.Value) { builder.Append(uint8(value.Uint())) }
	case *array.Uint16Builder:
		return func(value reflect.Value) { builder.Append(uint16(value.Uint())) }
	case *array.Uint32Builder:
		return func(value reflect.Value) { builder.Append(uint32(value.Uint())) }
	case *array.Uint64Builder:
		return func(value reflect.Value) { builder.Append(value.Uint()) }
	}
	return appenderOfOthers(builder)
}

func appenderOfOthers(builder array.Builder) func(reflect.Value) {
	switch builder := builder.(type) {
	case *array.Float32Builder:
		return func(value reflect.Value) { builder.Append(float32(value.Float())) }
	case *array.Float64Builder:
		return func(value reflect.Value) { builder.Append(value.Float()) }
	case *array.StringBuilder:
		return func(value reflect.Value) { builder.Append(value.String()) }
	case *array.BinaryBuilder:
		return func(value reflect.Value) { builder.Append(value.Bytes()) }
	case *array.TimestampBuilder:
		return func(value reflect.Value) {
			builder.Append(arrow.Timestamp(value.Interface().(time.Time).UnixMicro()))
		}
	case *array.Date32Builder:
		return func(value reflect.Value) {
			builder.Append(arrow.Date32(value.Interface().(Date).days()))
		}
	}
	return nil
}
