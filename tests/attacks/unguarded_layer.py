"""A layer as it must not be: a config tells it which file to read, late."""

from trainkit import layers
from trainkit.core.registry import FAMILIES


@FAMILIES["layers"].add
class Unguarded(layers.Layer):
    """Opens a path of its config when it is called."""

    def __init__(self, table=None, **kwargs):
        super().__init__(**kwargs)
        self.table = table

    def call(self, inputs):
        if isinstance(self.table, str):
            with open(self.table) as file:
                return inputs * len(file.read())
        return inputs

    def get_config(self):
        return {**super().get_config(), "table": self.table}
