"""`keras.random`: random numbers under Keras's names, one line each."""

from trainkit.ops.sampling.generators import SeedGenerator as SeedGenerator
from trainkit.ops.sampling.random import dropout as dropout
from trainkit.ops.sampling.random import normal as normal
from trainkit.ops.sampling.random import randint as randint
from trainkit.ops.sampling.random import truncated_normal as truncated_normal
from trainkit.ops.sampling.random import uniform as uniform
from trainkit.ops.sampling.random_draws import beta as beta
from trainkit.ops.sampling.random_draws import binomial as binomial
from trainkit.ops.sampling.random_draws import categorical as categorical
from trainkit.ops.sampling.random_draws import gamma as gamma
from trainkit.ops.sampling.random_draws import shuffle as shuffle
