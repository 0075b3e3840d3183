"""What is installed: manifests, versions, seals."""
