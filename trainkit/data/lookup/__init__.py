"""`tk.lookup`: tables from texts or numbers to values."""

from trainkit.core.names import NamesBelow as _NamesBelow
from trainkit.data.lookup.mutable_tables import DenseHashTable as _DenseHashTable
from trainkit.data.lookup.mutable_tables import MutableHashTable as _MutableHashTable
from trainkit.data.lookup.static_tables import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
)
from trainkit.data.lookup.static_tables import StaticHashTable as StaticHashTable
from trainkit.data.lookup.static_tables import StaticVocabularyTable as StaticVocabularyTable
from trainkit.data.lookup.static_tables import TextFileIndex as TextFileIndex
from trainkit.data.lookup.static_tables import TextFileInitializer as TextFileInitializer

experimental = _NamesBelow(
    "trainkit.lookup.experimental",
    MutableHashTable=_MutableHashTable,
    DenseHashTable=_DenseHashTable,
)
