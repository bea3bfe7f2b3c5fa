"""Graphs: functions traced once per signature, optimised, and replayed without Python's cost."""

# These give `Graph` its control flow, AutoGraph, printing and running.
from trainkit.graph import autograph as autograph
from trainkit.graph import branch_tracing as branch_tracing
from trainkit.graph import custom_rule as custom_rule
from trainkit.graph import executor as executor
from trainkit.graph import listing as listing
from trainkit.graph import loop_tracing as loop_tracing
