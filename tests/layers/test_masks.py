"""The masks of tensors, as writers of layers reach them."""

import trainkit as tk
from trainkit.layers import masks


def test_a_mask_travels_with_its_tensor():
    x, mask = tk.ones((2, 3)), tk.constant([True, False])
    masks.set_mask(x, mask)
    assert masks.mask_of(x) is mask
    assert masks.any_held()
    assert masks.masks_of([x, tk.ones(1)]) == [mask, None]
    masks.set_mask(x, None)
    assert masks.mask_of(x) is None
