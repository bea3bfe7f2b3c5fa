"""Run by the real Keras: reads the models of operations that trainkit wrote, or writes them.

python keras_side.py write FOLDER      the models, and what they give
python keras_side.py read FOLDER       one line of JSON: what does not load or gives something else
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import operation_cases
from exchanging import differences, save_model


def main(what, folder):
    folder = pathlib.Path(folder)
    if what == "write":
        for number, name in enumerate(operation_cases.CASES):
            if name not in operation_cases.NOT_IN_KERAS:
                try:
                    save_model(keras, name, folder / f"{number}")
                except (AttributeError, TypeError, ValueError):
                    continue  # Keras can't make or run it
        return
    print(json.dumps(differences(keras, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
