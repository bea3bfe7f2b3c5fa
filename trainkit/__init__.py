"""trainkit."""
