"""`keras.preprocessing.image`: the older place of functions on image files, and older batches."""

from trainkit.datasets.image_arrays import array_to_img as array_to_img
from trainkit.datasets.image_arrays import img_to_array as img_to_array
from trainkit.datasets.image_arrays import load_img as load_img
from trainkit.datasets.image_arrays import save_img as save_img
from trainkit.datasets.image_arrays import smart_resize as smart_resize
from trainkit.image_generators.affine_arrays import apply_affine_transform as apply_affine_transform
from trainkit.image_generators.changes import apply_brightness_shift as apply_brightness_shift
from trainkit.image_generators.changes import apply_channel_shift as apply_channel_shift
from trainkit.image_generators.changes import random_brightness as random_brightness
from trainkit.image_generators.changes import random_channel_shift as random_channel_shift
from trainkit.image_generators.changes import random_rotation as random_rotation
from trainkit.image_generators.changes import random_shear as random_shear
from trainkit.image_generators.changes import random_shift as random_shift
from trainkit.image_generators.changes import random_zoom as random_zoom
from trainkit.image_generators.file_batches import DirectoryIterator as DirectoryIterator
from trainkit.image_generators.image_batches import ImageIterator as Iterator
from trainkit.image_generators.image_batches import NumpyArrayIterator as NumpyArrayIterator
from trainkit.image_generators.image_data_generator import ImageDataGenerator as ImageDataGenerator
from trainkit.image_generators.table_batches import DataFrameIterator as DataFrameIterator
