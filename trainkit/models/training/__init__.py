"""The training loop: data to batches, one step, many epochs."""
