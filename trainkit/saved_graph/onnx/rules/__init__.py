"""How each operation is written in ONNX: importing this gives operations their facet `onnx`."""

from trainkit import graph as graph  # declares control flow
from trainkit.saved_graph.onnx.rules import absent_forms as absent_forms
from trainkit.saved_graph.onnx.rules import activations_forms as activations_forms
from trainkit.saved_graph.onnx.rules import complex_forms as complex_forms
from trainkit.saved_graph.onnx.rules import composites_forms as composites_forms
from trainkit.saved_graph.onnx.rules import control_forms as control_forms
from trainkit.saved_graph.onnx.rules import counting_forms as counting_forms
from trainkit.saved_graph.onnx.rules import detection_forms as detection_forms
from trainkit.saved_graph.onnx.rules import elementwise_forms as elementwise_forms
from trainkit.saved_graph.onnx.rules import further_forms as further_forms
from trainkit.saved_graph.onnx.rules import indexing_forms as indexing_forms
from trainkit.saved_graph.onnx.rules import quantized_forms as quantized_forms
from trainkit.saved_graph.onnx.rules import recurrent_forms as recurrent_forms
from trainkit.saved_graph.onnx.rules import reductions_forms as reductions_forms
from trainkit.saved_graph.onnx.rules import resizing_forms as resizing_forms
from trainkit.saved_graph.onnx.rules import running_forms as running_forms
from trainkit.saved_graph.onnx.rules import shapes_forms as shapes_forms
from trainkit.saved_graph.onnx.rules import spectra_forms as spectra_forms
from trainkit.saved_graph.onnx.rules import windows_forms as windows_forms
