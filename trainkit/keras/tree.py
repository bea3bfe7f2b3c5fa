"""`keras.tree`: nested lists, tuples and dicts."""

from trainkit.core.nest import flatten as flatten
from trainkit.core.nest import is_nested as is_nested
from trainkit.core.nest import map_structure as map_structure
from trainkit.core.nest import pack as pack_sequence_as
from trainkit.tf.nest import assert_same_structure as assert_same_structure
