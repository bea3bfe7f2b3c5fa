"""Random numbers under their TensorFlow 2 names: `tk.random`.

Keras's spellings of what clashes are at `trainkit.keras.random`. `seed` may be left out (the
process's generator, which `set_seed` resets), a generator, or an int: calls with the same int then
go through a sequence of their own, which `set_seed` starts again.
"""

from __future__ import annotations

from trainkit.core.names import NamesBelow as _NamesBelow
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.sampling.algorithms import Algorithm as Algorithm
from trainkit.ops.sampling.algorithms import create_rng_state as create_rng_state
from trainkit.ops.sampling.generators import Generator as Generator
from trainkit.ops.sampling.generators import SeedGenerator as SeedGenerator
from trainkit.ops.sampling.generators import global_generator as get_global_generator
from trainkit.ops.sampling.generators import set_global_generator as set_global_generator
from trainkit.ops.sampling.generators import set_seed as set_seed
from trainkit.ops.sampling.random import dropout as dropout
from trainkit.ops.sampling.random import randint as randint
from trainkit.ops.sampling.random_draws import beta as beta
from trainkit.ops.sampling.random_draws import binomial as binomial
from trainkit.ops.sampling.seeded_random import categorical as categorical
from trainkit.ops.sampling.seeded_random import fold_in as fold_in
from trainkit.ops.sampling.seeded_random import gamma as gamma
from trainkit.ops.sampling.seeded_random import normal as normal
from trainkit.ops.sampling.seeded_random import poisson as poisson
from trainkit.ops.sampling.seeded_random import shuffle as shuffle
from trainkit.ops.sampling.seeded_random import split as split
from trainkit.ops.sampling.seeded_random import stateless_binomial as stateless_binomial
from trainkit.ops.sampling.seeded_random import stateless_categorical as stateless_categorical
from trainkit.ops.sampling.seeded_random import stateless_gamma as stateless_gamma
from trainkit.ops.sampling.seeded_random import stateless_normal as stateless_normal
from trainkit.ops.sampling.seeded_random import stateless_poisson as stateless_poisson
from trainkit.ops.sampling.seeded_random import stateless_shuffle as stateless_shuffle
from trainkit.ops.sampling.seeded_random import (
    stateless_truncated_normal as stateless_truncated_normal,
)
from trainkit.ops.sampling.seeded_random import stateless_uniform as stateless_uniform
from trainkit.ops.sampling.seeded_random import truncated_normal as truncated_normal
from trainkit.ops.sampling.seeded_random import uniform as uniform
from trainkit.ops.sampling.truncated_between import (
    stateless_parameterized_truncated_normal as stateless_parameterized_truncated_normal,
)

experimental = _NamesBelow(
    "trainkit.random.experimental",
    {"index_shuffle": "use tk.random.shuffle, or shuffle of tk.data.Dataset"},
    Algorithm=Algorithm,
    Generator=Generator,
    create_rng_state=create_rng_state,
    get_global_generator=get_global_generator,
    set_global_generator=set_global_generator,
    stateless_split=split,
    stateless_fold_in=fold_in,
    stateless_shuffle=stateless_shuffle,
)

_describe_arguments(globals(), "name: not kept.", package="trainkit")

_SAMPLERS = ("all", "fixed_unigram", "learned_unigram", "log_uniform", "uniform")
_explain_unknown_names(
    globals(),
    left_out=dict.fromkeys(
        (f"{kind}_candidate_sampler" for kind in _SAMPLERS),
        "candidate samplers are left out; draw with tk.random.uniform or tk.random.categorical",
    ),
)
