"""What `python -m trainkit doctor` looks at, a file per area."""
