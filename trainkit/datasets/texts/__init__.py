"""Words as numbers: the older tools of Keras."""
