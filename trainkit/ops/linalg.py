"""Linear algebra under the names of `keras.ops.linalg`, one line each."""

from typing import Any as _Any

from trainkit.ops.factorizations import cholesky as cholesky
from trainkit.ops.factorizations import cholesky_inverse as cholesky_inverse
from trainkit.ops.factorizations import eig as eig
from trainkit.ops.factorizations import eigh as eigh
from trainkit.ops.factorizations import logdet as logdet
from trainkit.ops.factorizations import lu_factor as lu_factor
from trainkit.ops.factorizations import qr as qr
from trainkit.ops.norms import norm as norm
from trainkit.ops.singular_values import matrix_rank as matrix_rank
from trainkit.ops.singular_values import svd as svd
from trainkit.ops.solving import det as det
from trainkit.ops.solving import expm as expm
from trainkit.ops.solving import inv as inv
from trainkit.ops.solving import lstsq as lstsq
from trainkit.ops.solving import matrix_power as matrix_power
from trainkit.ops.solving import pinv as pinv
from trainkit.ops.solving import slogdet as slogdet
from trainkit.ops.solving import solve as solve
from trainkit.ops.solving import solve_triangular as solve_triangular

jvp: _Any  # set by trainkit.autodiff, which stands above
