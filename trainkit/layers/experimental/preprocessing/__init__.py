"""`tk.keras.layers.experimental.preprocessing`: the earlier place of the preprocessing layers."""

from __future__ import annotations

from trainkit.layers.augmentation.affine import RandomRotation as RandomRotation
from trainkit.layers.augmentation.affine import RandomTranslation as RandomTranslation
from trainkit.layers.augmentation.affine import RandomZoom as RandomZoom
from trainkit.layers.augmentation.flips_and_crops import RandomCrop as RandomCrop
from trainkit.layers.augmentation.flips_and_crops import RandomFlip as RandomFlip
from trainkit.layers.augmentation.image_resizing import CenterCrop as CenterCrop
from trainkit.layers.augmentation.image_resizing import Resizing as Resizing
from trainkit.layers.augmentation.light import RandomContrast as RandomContrast
from trainkit.layers.preprocessing.categorical import CategoryEncoding as CategoryEncoding
from trainkit.layers.preprocessing.categorical import Discretization as Discretization
from trainkit.layers.preprocessing.feature_normalization import Normalization as Normalization
from trainkit.layers.preprocessing.feature_normalization import Rescaling as Rescaling
from trainkit.layers.preprocessing.hashing import Hashing as Hashing
from trainkit.layers.preprocessing.lookup import IntegerLookup as IntegerLookup
from trainkit.layers.preprocessing.lookup import StringLookup as StringLookup
from trainkit.layers.preprocessing.text_vectorization import TextVectorization as TextVectorization
