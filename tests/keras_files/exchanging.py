"""Models of operations saved by one library and compared in the other; runs in both."""

import numpy as np
import operation_cases


def flat(lib, outputs):
    """The arrays in a nest of outputs."""
    if isinstance(outputs, list | tuple):
        return [array for item in outputs for array in flat(lib, item)]
    return [np.asarray(lib.ops.convert_to_numpy(outputs))]


def outputs_of(lib, model, name):
    """What a model gives for the inputs of a case."""
    inputs = operation_cases.inputs_of(name)
    return flat(lib, model(inputs if len(inputs) > 1 else inputs[0]))


def save_model(lib, name, stem):
    """Write `STEM.keras` and, beside it, what the model gives."""
    model = operation_cases.model_of(lib, name)
    np.savez(f"{stem}.npz", *outputs_of(lib, model, name))
    model.save(f"{stem}.keras")


def differences(lib, folder):
    """By case, why a model in `folder` does not load, or what it gives otherwise."""
    faults = {}
    for number, name in enumerate(operation_cases.CASES):
        path = folder / f"{number}.keras"
        if not path.exists():
            continue
        try:
            outputs = outputs_of(lib, lib.saving.load_model(str(path)), name)
        except Exception as error:
            faults[name] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        with np.load(folder / f"{number}.npz") as stored:
            expected = [stored[key] for key in stored.files]
        if len(outputs) != len(expected) or not all(map(is_close, outputs, expected)):
            faults[name] = f"gives {outputs}, not {expected}"[:300]
    return faults


def is_close(a, b):
    """Whether two results are the same to 1e-5, or to a rounding of float16."""
    tolerance = 2e-3 if b.dtype == np.float16 else 1e-5
    same_kind = a.shape == b.shape and a.dtype == b.dtype
    return same_kind and np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
