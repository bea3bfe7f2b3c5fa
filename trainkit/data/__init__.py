"""Input pipelines: `Dataset` and what it is made of."""

from trainkit.data.dataset import AUTOTUNE as AUTOTUNE
from trainkit.data.dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from trainkit.data.dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from trainkit.data.dataset import Dataset as Dataset
from trainkit.data.iterator import DatasetIterator as DatasetIterator

Iterator = DatasetIterator
