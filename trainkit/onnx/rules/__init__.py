"""Importing this registers the rules of all operators."""

from trainkit.onnx.rules import attention_operators as attention_operators
from trainkit.onnx.rules import control_operators as control_operators
from trainkit.onnx.rules import detection_operators as detection_operators
from trainkit.onnx.rules import elementwise_operators as elementwise_operators
from trainkit.onnx.rules import grid_operators as grid_operators
from trainkit.onnx.rules import index_operators as index_operators
from trainkit.onnx.rules import normalization_operators as normalization_operators
from trainkit.onnx.rules import product_operators as product_operators
from trainkit.onnx.rules import quantization_operators as quantization_operators
from trainkit.onnx.rules import recurrent_operators as recurrent_operators
from trainkit.onnx.rules import resize_operators as resize_operators
from trainkit.onnx.rules import scattering_windows as scattering_windows
from trainkit.onnx.rules import shape_operators as shape_operators
from trainkit.onnx.rules import size_arithmetic as size_arithmetic
from trainkit.onnx.rules import spectrum_operators as spectrum_operators
from trainkit.onnx.rules import table_operators as table_operators
from trainkit.onnx.rules import text_operators as text_operators
from trainkit.onnx.rules import window_operators as window_operators
