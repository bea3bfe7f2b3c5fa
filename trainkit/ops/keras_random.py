"""`keras.random`: random numbers under Keras's names, one line each."""

from trainkit.ops.random import SeedGenerator as SeedGenerator
from trainkit.ops.random import dropout as dropout
from trainkit.ops.random import normal as normal
from trainkit.ops.random import randint as randint
from trainkit.ops.random import truncated_normal as truncated_normal
from trainkit.ops.random import uniform as uniform
from trainkit.ops.sampling import beta as beta
from trainkit.ops.sampling import binomial as binomial
from trainkit.ops.sampling import categorical as categorical
from trainkit.ops.sampling import gamma as gamma
from trainkit.ops.sampling import shuffle as shuffle
