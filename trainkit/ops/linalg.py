"""Linear algebra under the names of `keras.ops.linalg`, one line each."""

from typing import Any as _Any

from trainkit.ops.linear_algebra.factorizations import cholesky as cholesky
from trainkit.ops.linear_algebra.factorizations import cholesky_inverse as cholesky_inverse
from trainkit.ops.linear_algebra.factorizations import eig as eig
from trainkit.ops.linear_algebra.factorizations import eigh as eigh
from trainkit.ops.linear_algebra.factorizations import logdet as logdet
from trainkit.ops.linear_algebra.factorizations import lu_factor as lu_factor
from trainkit.ops.linear_algebra.factorizations import qr as qr
from trainkit.ops.linear_algebra.linear_solve import det as det
from trainkit.ops.linear_algebra.linear_solve import expm as expm
from trainkit.ops.linear_algebra.linear_solve import inv as inv
from trainkit.ops.linear_algebra.linear_solve import lstsq as lstsq
from trainkit.ops.linear_algebra.linear_solve import matrix_power as matrix_power
from trainkit.ops.linear_algebra.linear_solve import pinv as pinv
from trainkit.ops.linear_algebra.linear_solve import slogdet as slogdet
from trainkit.ops.linear_algebra.linear_solve import solve as solve
from trainkit.ops.linear_algebra.linear_solve import solve_triangular as solve_triangular
from trainkit.ops.linear_algebra.norms import norm as norm
from trainkit.ops.linear_algebra.singular_values import matrix_rank as matrix_rank
from trainkit.ops.linear_algebra.singular_values import svd as svd

jvp: _Any  # set by trainkit.autodiff, which stands above
