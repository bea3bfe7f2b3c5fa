"""Write `values.json`: what TensorFlow 2 gives for every row of `cases.py`.

Run with a Python that has TensorFlow, from the root of the repository:
`python tests/tf/record_values.py`.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.tf.cases import CASES, result_arrays, run_case

HERE = Path(__file__).parent


def stored(array):
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return {
            "complex": [array.real.tolist(), array.imag.tolist()],
            "shape": array.shape,
            "dtype": array.dtype.name,
        }
    return {
        "value": array.astype(float).tolist() if array.dtype.kind == "f" else array.tolist(),
        "shape": array.shape,
        "dtype": array.dtype.name,
    }


def main():
    import tensorflow

    values, failed = {}, []
    for case in CASES:
        try:
            values[case.id] = [stored(a) for a in result_arrays(run_case(tensorflow, case))]
        except Exception as error:
            failed.append(f"{case.id}: {type(error).__name__}: {str(error)[:300]}")
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in values.items()]
    (HERE / "values.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
