"""Bodies of heavy operations: plain ones over `xp`, and tuned ones for one device."""
