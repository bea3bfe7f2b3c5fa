"""Graphs that outlive their source: `tk.saved_graph.save`, `save_training`, and `export_onnx`.

The file is HDF5 and holds data alone: `graph`, a JSON text of nodes, and `values`, the arrays of
constants
and variables. `standalone.py` in this folder reads it with nothing but numpy and h5py; it may be
copied
elsewhere.
"""

from trainkit.saved_graph.loading import LoadedFunction as LoadedFunction
from trainkit.saved_graph.loading import load as load
from trainkit.saved_graph.onnx.onnx_export import export_onnx as export_onnx
from trainkit.saved_graph.saving import save as save
from trainkit.saved_graph.training import load_training as load_training
from trainkit.saved_graph.training import save_training as save_training
