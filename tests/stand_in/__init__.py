"""A stand-in for CuPy: its interface and its refusals, with NumPy behind them.

No GPU takes part, so nothing here says that a kernel works or how fast it is. What it does show:
that trainkit calls nothing that CuPy lacks, never mixes arrays of the CPU and of a GPU, and copies
nothing between them but what the user asked for. `facts.json` says what CuPy has.

    with stand_in.in_place() as ledger:  # tk.device("/gpu:0") is there, and the default
        ...
        ledger.to_host  # a list of what was read back

The whole suite runs like this with `pytest --gpu-stand-in`.
"""

from tests.stand_in.installing import in_place as in_place
