"""Graphs: functions traced once per signature, optimised, and replayed without Python's cost."""

# These give `Graph` its control flow, AutoGraph, printing and running.
from trainkit.graph.autograph import convert as convert
from trainkit.graph.control_flow import control_flow_vmap as control_flow_vmap
from trainkit.graph.control_flow import custom_gradient as custom_gradient
from trainkit.graph.control_flow import trace_cond as trace_cond
from trainkit.graph.control_flow import trace_loops as trace_loops
from trainkit.graph.ir import printing as printing
from trainkit.graph.runtime import tiers as tiers
