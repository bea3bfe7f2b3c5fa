"""`keras.utils`: labels, sequences, downloads, seeds, diagrams, and objects as configs."""

import random as _random

import numpy as _np

from trainkit.callbacks.progbar import Progbar as Progbar
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.process.console import disable_interactive_logging as disable_interactive_logging
from trainkit.core.process.console import enable_interactive_logging as enable_interactive_logging
from trainkit.core.process.console import (
    is_interactive_logging_enabled as is_interactive_logging_enabled,
)
from trainkit.datasets.downloads import get_file as get_file
from trainkit.datasets.folders import audio_dataset_from_directory as audio_dataset_from_directory
from trainkit.datasets.folders import image_dataset_from_directory as image_dataset_from_directory
from trainkit.datasets.folders import text_dataset_from_directory as text_dataset_from_directory
from trainkit.datasets.image_arrays import array_to_img as array_to_img
from trainkit.datasets.image_arrays import img_to_array as img_to_array
from trainkit.datasets.image_arrays import load_img as load_img
from trainkit.datasets.image_arrays import save_img as save_img
from trainkit.datasets.labels import normalize as normalize
from trainkit.datasets.labels import to_categorical as to_categorical
from trainkit.datasets.sequences import pad_sequences as pad_sequences
from trainkit.datasets.sequences import split_dataset as split_dataset
from trainkit.datasets.timeseries import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from trainkit.keras.backend import clear_session as clear_session
from trainkit.keras.backend import is_keras_tensor as is_keras_tensor
from trainkit.keras.backend import standardize_dtype as standardize_dtype
from trainkit.keras.saving import CustomObjectScope as CustomObjectScope
from trainkit.keras.saving import custom_object_scope as custom_object_scope
from trainkit.keras.saving import deserialize_keras_object as deserialize_keras_object
from trainkit.keras.saving import get_custom_objects as get_custom_objects
from trainkit.keras.saving import get_registered_name as get_registered_name
from trainkit.keras.saving import get_registered_object as get_registered_object
from trainkit.keras.saving import register_keras_serializable as register_keras_serializable
from trainkit.keras.saving import serialize_keras_object as serialize_keras_object
from trainkit.keras.utils import bounding_boxes as bounding_boxes
from trainkit.keras.utils import legacy as legacy
from trainkit.models.attribute_dict import Config as Config
from trainkit.models.diagrams import model_to_dot as model_to_dot
from trainkit.models.diagrams import plot_model as plot_model
from trainkit.models.feature_space import FeatureSpace as FeatureSpace
from trainkit.models.functional import source_inputs as get_source_inputs
from trainkit.models.training.data_adapters import pack as pack_x_y_sample_weight
from trainkit.models.training.data_adapters import unpack as unpack_x_y_sample_weight
from trainkit.models.training.py_dataset import PyDataset as PyDataset
from trainkit.models.training.py_dataset import PyDataset as Sequence
from trainkit.ops.sampling.generators import set_seed as _set_seed


def set_random_seed(seed: int) -> None:
    """Set the seeds of Python's, NumPy's and this library's random numbers.

    Args:
        seed: an int in [0, 2**32).

    Raises:
        ValueError: it is out of range.

    Example:
        >>> tk.utils.set_random_seed(1)
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"set_random_seed: the seed must be in [0, 2**32), got {seed}")
    _random.seed(seed)
    _np.random.seed(seed)
    _set_seed(seed)


_explain_unknown_names(globals())
