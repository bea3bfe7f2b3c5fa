"""Record files: TFRecord framing and reading, `Example` messages, and tensors as messages."""
