"""How the symbols of a traced function are written."""

import trainkit as tk


def test_symbols_are_written_as_in_tensorflow():
    seen = []

    @tk.function
    def noted(x):
        seen.extend([repr([x]), str(x)])
        return x

    noted(tk.constant([[1.0, 2.0]]))
    assert seen == [
        "[<tf.Tensor 'x:0' shape=(1, 2) dtype=float32>]",
        'Tensor("x:0", shape=(1, 2), dtype=float32)',
    ]
