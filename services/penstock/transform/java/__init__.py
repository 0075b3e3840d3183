"""Java's conversions and syntax, translated to Spark and Python.

- `casts`: conversions of numbers, times and texts
- `date_formats`: `SimpleDateFormat` patterns
- `patterns`: `java.util.regex` patterns and replacements
"""
