"""Paths, the files behind them, and how their names are shown."""
