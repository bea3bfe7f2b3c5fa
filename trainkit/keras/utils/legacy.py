"""`keras.utils.legacy`: another name of `keras.legacy.saving`."""

from trainkit.keras.legacy.saving import deserialize_keras_object as deserialize_keras_object
from trainkit.keras.legacy.saving import serialize_keras_object as serialize_keras_object
