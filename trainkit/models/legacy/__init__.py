"""Whole models in HDF5 files, and configs as Keras 2 wrote them."""
