"""Standard data sets as NumPy arrays: `load_data()` of each gives training and test parts."""

from trainkit.datasets import cifar10 as cifar10
from trainkit.datasets import digits as digits
from trainkit.datasets import fashion_mnist as fashion_mnist
from trainkit.datasets import mnist as mnist
