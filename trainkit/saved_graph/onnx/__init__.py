"""Traced functions as ONNX files: `tk.saved_graph.export_onnx`."""
