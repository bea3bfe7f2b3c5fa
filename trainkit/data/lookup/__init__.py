"""`tk.lookup`: tables from texts or numbers to values."""

from trainkit.data.lookup.static_tables import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
)
from trainkit.data.lookup.static_tables import StaticHashTable as StaticHashTable
from trainkit.data.lookup.static_tables import StaticVocabularyTable as StaticVocabularyTable
from trainkit.data.lookup.static_tables import TextFileIndex as TextFileIndex
from trainkit.data.lookup.static_tables import TextFileInitializer as TextFileInitializer
