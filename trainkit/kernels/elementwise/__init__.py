"""Element-wise functions over large arrays."""
