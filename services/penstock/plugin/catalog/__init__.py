"""The catalog of installed plugins: manifests, versions, seals."""
