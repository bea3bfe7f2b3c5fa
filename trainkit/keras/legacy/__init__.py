"""`keras.legacy`: configs as Keras 2 wrote them."""

from trainkit.keras.legacy import saving as saving
