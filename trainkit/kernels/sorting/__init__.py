"""Order of rows on a GPU."""
