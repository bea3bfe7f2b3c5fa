"""`keras.preprocessing`: images, texts and sequences."""

from trainkit.datasets.folders import image_dataset_from_directory as image_dataset_from_directory
from trainkit.datasets.folders import text_dataset_from_directory as text_dataset_from_directory
from trainkit.datasets.timeseries import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from trainkit.keras.preprocessing import image as image
from trainkit.keras.preprocessing import sequence as sequence
from trainkit.keras.preprocessing import text as text
