"""The checkpoint file: header, index, writer, reader, and the checks of all it says."""
