"""What happened in a run, in sentences."""
