"""The extension `linalg` of the Array API standard."""

from __future__ import annotations

from trainkit.ops.linear_algebra.promoted_linalg import EighResult as EighResult
from trainkit.ops.linear_algebra.promoted_linalg import EigResult as EigResult
from trainkit.ops.linear_algebra.promoted_linalg import QRResult as QRResult
from trainkit.ops.linear_algebra.promoted_linalg import SlogdetResult as SlogdetResult
from trainkit.ops.linear_algebra.promoted_linalg import SVDResult as SVDResult
from trainkit.ops.linear_algebra.promoted_linalg import cholesky as cholesky
from trainkit.ops.linear_algebra.promoted_linalg import cross as cross
from trainkit.ops.linear_algebra.promoted_linalg import det as det
from trainkit.ops.linear_algebra.promoted_linalg import diagonal as diagonal
from trainkit.ops.linear_algebra.promoted_linalg import eig as eig
from trainkit.ops.linear_algebra.promoted_linalg import eigh as eigh
from trainkit.ops.linear_algebra.promoted_linalg import eigvals as eigvals
from trainkit.ops.linear_algebra.promoted_linalg import eigvalsh as eigvalsh
from trainkit.ops.linear_algebra.promoted_linalg import inv as inv
from trainkit.ops.linear_algebra.promoted_linalg import matmul as matmul
from trainkit.ops.linear_algebra.promoted_linalg import matrix_norm as matrix_norm
from trainkit.ops.linear_algebra.promoted_linalg import matrix_power as matrix_power
from trainkit.ops.linear_algebra.promoted_linalg import matrix_rank as matrix_rank
from trainkit.ops.linear_algebra.promoted_linalg import matrix_transpose as matrix_transpose
from trainkit.ops.linear_algebra.promoted_linalg import outer as outer
from trainkit.ops.linear_algebra.promoted_linalg import pinv as pinv
from trainkit.ops.linear_algebra.promoted_linalg import qr as qr
from trainkit.ops.linear_algebra.promoted_linalg import slogdet as slogdet
from trainkit.ops.linear_algebra.promoted_linalg import solve as solve
from trainkit.ops.linear_algebra.promoted_linalg import svd as svd
from trainkit.ops.linear_algebra.promoted_linalg import svdvals as svdvals
from trainkit.ops.linear_algebra.promoted_linalg import tensordot as tensordot
from trainkit.ops.linear_algebra.promoted_linalg import trace as trace
from trainkit.ops.linear_algebra.promoted_linalg import vecdot as vecdot
from trainkit.ops.linear_algebra.promoted_linalg import vector_norm as vector_norm
