"""What `penstock doctor` looks at of what a file of keys says."""
