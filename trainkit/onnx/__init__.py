"""`tk.onnx`: ONNX files as models that train.

`model.export("model.onnx")` and `tk.saved_graph.export_onnx` write such files.
"""

from trainkit.onnx.onnx_loading import load as load
