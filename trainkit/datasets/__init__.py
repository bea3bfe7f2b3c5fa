"""Standard data sets as NumPy arrays: `load_data()` of each gives training and test parts."""

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.datasets import boston_housing as boston_housing
from trainkit.datasets import california_housing as california_housing
from trainkit.datasets import cifar10 as cifar10
from trainkit.datasets import cifar100 as cifar100
from trainkit.datasets import digits as digits
from trainkit.datasets import fashion_mnist as fashion_mnist
from trainkit.datasets import imdb as imdb
from trainkit.datasets import mnist as mnist
from trainkit.datasets import reuters as reuters

_explain_unknown_names(globals())
