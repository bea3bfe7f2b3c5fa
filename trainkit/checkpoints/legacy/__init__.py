"""HDF5 files in the layout of Keras 2: weights by layer, and texts in attributes."""
