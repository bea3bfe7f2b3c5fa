"""Files of other formats: Keras's weights and archives, safetensors, npz, tables."""
