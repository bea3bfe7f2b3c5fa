"""`keras.preprocessing`: images, texts and sequences."""

from trainkit.datasets.timeseries import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from trainkit.keras.folders import image_dataset_from_directory as image_dataset_from_directory
from trainkit.keras.folders import text_dataset_from_directory as text_dataset_from_directory
from trainkit.keras.preprocessing import image as image
from trainkit.keras.preprocessing import sequence as sequence
