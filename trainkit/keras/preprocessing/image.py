"""`keras.preprocessing.image`: the older place of functions on image files."""

from trainkit.datasets.image_arrays import array_to_img as array_to_img
from trainkit.datasets.image_arrays import img_to_array as img_to_array
from trainkit.datasets.image_arrays import load_img as load_img
from trainkit.datasets.image_arrays import save_img as save_img
from trainkit.datasets.image_arrays import smart_resize as smart_resize
