"""`tk.saved_model`: objects with their variables and traced functions as folders.

The folders are in trainkit's own format, one HDF5 file in each; they are not TensorFlow's
SavedModels, which are protocol buffers. The names are TensorFlow's. Those of files and folders are
there for programs that refer to them: nothing of these names is written.
"""

from __future__ import annotations

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.saved_graph.model_loading import contains_saved_model as contains_saved_model
from trainkit.saved_graph.model_loading import load_model as load
from trainkit.saved_graph.model_saving import save_model as save
from trainkit.saved_graph.saved_model_options import LoadOptions as LoadOptions
from trainkit.saved_graph.saved_model_options import SaveOptions as SaveOptions

ASSETS_DIRECTORY = "assets"
ASSETS_KEY = "saved_model_assets"
CLASSIFY_INPUTS = "inputs"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES = "classes"
CLASSIFY_OUTPUT_SCORES = "scores"
DEBUG_DIRECTORY = "debug"
DEBUG_INFO_FILENAME_PB = "saved_model_debug_info.pb"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
GPU = "gpu"
PREDICT_INPUTS = "inputs"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
PREDICT_OUTPUTS = "outputs"
REGRESS_INPUTS = "inputs"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"
REGRESS_OUTPUTS = "outputs"
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
SERVING = "serve"
TPU = "tpu"
TRAINING = "train"
VARIABLES_DIRECTORY = "variables"
VARIABLES_FILENAME = "variables"


_LEFT_OUT = {
    "Asset": "what functions read is stored in their graphs; other files stay where they are",
    "experimental": "there are no fingerprints, and no policies for variables",
}


_explain_unknown_names(globals(), "trainkit.saved_model", _LEFT_OUT)
