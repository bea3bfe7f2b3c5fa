"""From a file back to objects: what matches what, and what did not."""
