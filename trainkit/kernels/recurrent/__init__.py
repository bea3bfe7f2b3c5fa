"""LSTM and GRU over whole sequences."""
