"""Generated from `proto/` by `proto/generate.sh`, never edited."""
