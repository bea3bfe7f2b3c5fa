"""Layers, one line each."""

from trainkit.layers.autocast import AutocastVariable as AutocastVariable
from trainkit.layers.dtype_policy import DTypePolicy as DTypePolicy
from trainkit.layers.input_spec import InputSpec as InputSpec
from trainkit.layers.layer import Layer as Layer
from trainkit.layers.layer import deserialize as deserialize
from trainkit.layers.layer import get as get
from trainkit.layers.layer import serialize as serialize
