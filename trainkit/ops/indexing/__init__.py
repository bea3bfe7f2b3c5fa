"""Reading and writing elements by position: indexing, gather, scatter, segments."""
