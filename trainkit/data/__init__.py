"""Input pipelines: `Dataset` and what it is made of."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.data import experimental as experimental
from trainkit.data.dataset import AUTOTUNE as AUTOTUNE
from trainkit.data.dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from trainkit.data.dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from trainkit.data.dataset import Dataset as Dataset
from trainkit.data.iterator import DatasetIterator as DatasetIterator
from trainkit.data.options import Options as Options
from trainkit.data.options import ThreadingOptions as ThreadingOptions
from trainkit.data.readers.files import FixedLengthRecordDataset as FixedLengthRecordDataset
from trainkit.data.readers.files import TextLineDataset as TextLineDataset
from trainkit.data.readers.files import TFRecordDataset as TFRecordDataset
from trainkit.data.structure import DatasetSpec as DatasetSpec

Iterator = DatasetIterator

_explain_unknown_names(
    globals(),
    left_out={
        "IteratorSpec": "use element_spec of the data set",
        "NumpyIterator": "use as_numpy_iterator() of the data set",
    },
)
