"""`keras.preprocessing.image`: the older place of functions on image files."""

from trainkit.keras.images import array_to_img as array_to_img
from trainkit.keras.images import img_to_array as img_to_array
from trainkit.keras.images import load_img as load_img
from trainkit.keras.images import save_img as save_img
