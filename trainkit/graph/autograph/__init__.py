"""Python control flow rewritten for graphs."""
