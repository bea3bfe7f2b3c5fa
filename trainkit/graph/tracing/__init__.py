"""From a Python function to graphs: arguments, cache keys, traces, effects."""
