"""`keras.tree`: nested lists, tuples, deques and dicts."""

from trainkit.core.keras_tree import MAP_TO_NONE as MAP_TO_NONE
from trainkit.core.keras_tree import assert_same_paths as assert_same_paths
from trainkit.core.keras_tree import assert_same_structure as assert_same_structure
from trainkit.core.keras_tree import flatten as flatten
from trainkit.core.keras_tree import flatten_with_path as flatten_with_path
from trainkit.core.keras_tree import is_nested as is_nested
from trainkit.core.keras_tree import lists_to_tuples as lists_to_tuples
from trainkit.core.keras_tree import map_shape_structure as map_shape_structure
from trainkit.core.keras_tree import map_structure as map_structure
from trainkit.core.keras_tree import map_structure_up_to as map_structure_up_to
from trainkit.core.keras_tree import pack_sequence_as as pack_sequence_as
from trainkit.core.keras_tree import traverse as traverse
