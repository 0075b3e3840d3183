"""Java's conversions and syntax, translated to Spark and Python.

- `casts`: conversions of numbers, times and texts, as SQL; `cast_kernels`: the same by Arrow
- `date_formats`: `SimpleDateFormat` patterns; `date_texts`: times written by them
- `time_kernels`: times and their texts by Arrow
- `patterns`: `java.util.regex` patterns and replacements
"""
