"""The journal of a run: a line a step, what it was run on, and where its checkpoints are."""
