//! Rows as Arrow messages, and as lines of JSON or text. What rides in `Batch.data` is the record batch message alone, no stream:
//! the schema went before it in a frame of its own.

use std::fmt::Display;
use std::io::{Cursor, Read};

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::{write_message, CompressionContext, DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use base64::prelude::{Engine, BASE64_STANDARD};

/// The schema message of `Schema.arrow_schema`.
pub fn encode_schema(schema: &Schema) -> Result<Vec<u8>, ArrowError> {
    let (options, mut message) = (IpcWriteOptions::default(), Vec::new());
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut DictionaryTracker::new(true),
        &options,
    );
    write_message(&mut message, encoded, &options)?;
    Ok(message)
}

/// The record batch message of `Batch.data`.
pub fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let (options, mut message) = (IpcWriteOptions::default(), Vec::new());
    let mut context = CompressionContext::default();
    let (_, encoded) =
        IpcDataGenerator::default().encode(batch, &mut DictionaryTracker::new(true), &options, &mut context)?;
    write_message(&mut message, encoded, &options)?;
    Ok(message)
}

/// The rows of a batch: its schema message and its data, one after the other, are what Arrow calls a stream.
pub fn decode(schema: &[u8], data: &[u8]) -> Result<RecordBatch, ArrowError> {
    let stream = Cursor::new(schema).chain(Cursor::new(data));
    let mut reader = arrow_ipc::reader::StreamReader::try_new(stream, None)?;
    reader.next().unwrap_or_else(|| Err(ArrowError::ParseError("there is no record batch in it".to_string())))
}

pub fn decode_schema(schema: &[u8]) -> Result<Schema, ArrowError> {
    Ok(arrow_ipc::reader::StreamReader::try_new(Cursor::new(schema), None)?.schema().as_ref().clone())
}

/// Columns of the change, not of the row, as `__op`.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__")
}

/// Whether a column has a type that `write_json` writes.
pub fn has_json(field: &Field) -> bool {
    use DataType::*;
    match field.data_type() {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64 => true,
        Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_) | Decimal128(_, _) | Decimal256(_, _) | Date32 => {
            true
        }
        Time32(_) | Time64(_) | Duration(_) => true,
        Timestamp(_, zone) => zone.as_deref().is_none_or(|zone| zone.parse::<Tz>().is_ok() || zone == "UTC"),
        List(item) | LargeList(item) => has_json(item),
        Struct(fields) => fields.iter().all(|one| has_json(one)),
        _ => false,
    }
}

/// Write one row as an object of JSON and a newline, in the forms that proto/README.md gives to values.
pub fn write_json_line(out: &mut Vec<u8>, batch: &RecordBatch, row: usize) -> Result<(), String> {
    let fields = batch.schema_ref().fields();
    let columns = fields.iter().zip(batch.columns()).filter(|(field, _)| !is_reserved(field.name()));
    write_object(out, columns.map(|(field, column)| (field.name().as_str(), column.as_ref())), row)?;
    out.push(b'\n');
    Ok(())
}

fn write_object<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a str, &'a dyn Array)>,
    row: usize,
) -> Result<(), String> {
    out.push(b'{');
    for (number, (name, column)) in columns.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_text(out, name);
        out.push(b':');
        write_json(out, column, row).map_err(|error| format!("'{name}': {error}"))?;
    }
    out.push(b'}');
    Ok(())
}

fn write_json(out: &mut Vec<u8>, column: &dyn Array, row: usize) -> Result<(), String> {
    use DataType::*;
    if column.is_null(row) || matches!(column.data_type(), Null) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    macro_rules! of {
        ($type:ty) => {
            column.as_primitive::<$type>().value(row)
        };
    }
    match column.data_type() {
        Boolean => write_bare(out, column.as_boolean().value(row)),
        Int8 => write_bare(out, of!(Int8Type)),
        Int16 => write_bare(out, of!(Int16Type)),
        Int32 => write_bare(out, of!(Int32Type)),
        Int64 => write_bare(out, of!(Int64Type)),
        UInt8 => write_bare(out, of!(UInt8Type)),
        UInt16 => write_bare(out, of!(UInt16Type)),
        UInt32 => write_bare(out, of!(UInt32Type)),
        UInt64 => write_bare(out, of!(UInt64Type)),
        Float32 => write_float(out, f64::from(of!(Float32Type)), &serde_json::json!(of!(Float32Type))),
        Float64 => write_float(out, of!(Float64Type), &serde_json::json!(of!(Float64Type))),
        Utf8 => write_text(out, column.as_string::<i32>().value(row)),
        LargeUtf8 => write_text(out, column.as_string::<i64>().value(row)),
        Binary => write_bytes(out, column.as_binary::<i32>().value(row)),
        LargeBinary => write_bytes(out, column.as_binary::<i64>().value(row)),
        FixedSizeBinary(_) => write_bytes(out, column.as_fixed_size_binary().value(row)),
        Decimal128(_, _) => write_text(out, &column.as_primitive::<Decimal128Type>().value_as_string(row)),
        Decimal256(_, _) => write_text(out, &column.as_primitive::<Decimal256Type>().value_as_string(row)),
        Date32 => {
            let date = column.as_primitive::<Date32Type>().value_as_date(row);
            write_text(out, &date.ok_or("a date beyond the calendar")?.format("%Y-%m-%d").to_string());
        }
        Time32(_) | Time64(_) => write_time(out, column, row)?,
        Timestamp(unit, zone) => write_timestamp(out, column, row, unit, zone.is_some())?,
        Duration(TimeUnit::Second) => write_bare(out, of!(DurationSecondType)),
        Duration(TimeUnit::Millisecond) => write_bare(out, of!(DurationMillisecondType)),
        Duration(TimeUnit::Microsecond) => write_bare(out, of!(DurationMicrosecondType)),
        Duration(TimeUnit::Nanosecond) => write_bare(out, of!(DurationNanosecondType)),
        List(_) => write_list(out, column.as_list::<i32>().value(row).as_ref())?,
        LargeList(_) => write_list(out, column.as_list::<i64>().value(row).as_ref())?,
        Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            write_object(out, columns.map(|(field, column)| (field.name().as_str(), column.as_ref())), row)?;
        }
        other => return Err(format!("{other} has no form in JSON")),
    }
    Ok(())
}

fn write_time(out: &mut Vec<u8>, column: &dyn Array, row: usize) -> Result<(), String> {
    let (time, form) = match column.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            (column.as_primitive::<Time32SecondType>().value_as_time(row), "%H:%M:%S")
        }
        DataType::Time32(_) => (column.as_primitive::<Time32MillisecondType>().value_as_time(row), "%H:%M:%S%.3f"),
        DataType::Time64(TimeUnit::Microsecond) => {
            (column.as_primitive::<Time64MicrosecondType>().value_as_time(row), "%H:%M:%S%.6f")
        }
        _ => (column.as_primitive::<Time64NanosecondType>().value_as_time(row), "%H:%M:%S%.9f"),
    };
    write_text(out, &time.ok_or("a time beyond a day")?.format(form).to_string());
    Ok(())
}

/// A time with a zone is an instant: it is written in UTC, whatever the zone.
fn write_timestamp(
    out: &mut Vec<u8>,
    column: &dyn Array,
    row: usize,
    unit: &TimeUnit,
    zoned: bool,
) -> Result<(), String> {
    let (moment, form) = match unit {
        TimeUnit::Second => (column.as_primitive::<TimestampSecondType>().value_as_datetime(row), "%Y-%m-%dT%H:%M:%S"),
        TimeUnit::Millisecond => {
            (column.as_primitive::<TimestampMillisecondType>().value_as_datetime(row), "%Y-%m-%dT%H:%M:%S%.3f")
        }
        TimeUnit::Microsecond => {
            (column.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row), "%Y-%m-%dT%H:%M:%S%.6f")
        }
        TimeUnit::Nanosecond => {
            (column.as_primitive::<TimestampNanosecondType>().value_as_datetime(row), "%Y-%m-%dT%H:%M:%S%.9f")
        }
    };
    let text = moment.ok_or("a time beyond the calendar")?.format(form).to_string();
    write_text(out, &if zoned { text + "Z" } else { text });
    Ok(())
}

fn write_list(out: &mut Vec<u8>, items: &dyn Array) -> Result<(), String> {
    out.push(b'[');
    for item in 0..items.len() {
        if item > 0 {
            out.push(b',');
        }
        write_json(out, items, item)?;
    }
    out.push(b']');
    Ok(())
}

fn write_bare(out: &mut Vec<u8>, value: impl Display) {
    out.extend_from_slice(value.to_string().as_bytes());
}

/// JSON has no numbers for these three.
fn write_float(out: &mut Vec<u8>, value: f64, finite: &serde_json::Value) {
    match value {
        value if value.is_nan() => write_text(out, "NaN"),
        f64::INFINITY => write_text(out, "Infinity"),
        f64::NEG_INFINITY => write_text(out, "-Infinity"),
        _ => write_bare(out, finite),
    }
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_text(out, &BASE64_STANDARD.encode(bytes));
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text goes into memory");
}

/// Write the text of one column and a newline. What would be no line, or two, is refused.
pub fn write_text_line(out: &mut Vec<u8>, column: &dyn Array, row: usize) -> Result<(), String> {
    if column.is_null(row) {
        return Err("it is null, and a line of text has no form for that".to_string());
    }
    let text = match column.data_type() {
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        _ => column.as_string::<i32>().value(row),
    };
    if text.contains('\n') {
        return Err("it has a newline in it, and would be read as two lines".to_string());
    }
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
    Ok(())
}
