"""Masks of tensors, for those who write layers: `mask_of`, `set_mask`."""

from trainkit.core.masks import any_held as any_held
from trainkit.core.masks import mask_of as mask_of
from trainkit.core.masks import masks_of as masks_of
from trainkit.core.masks import set_mask as set_mask
