"""New tensors that depend on tensors."""

from tests.conformance.table import case, normal
from trainkit import ops

CASES = [
    case("fill", lambda x: ops.full((3, 4), x, dtype="float64"), normal(4)),
    case("full_like", ops.full_like, normal(3, 4), normal(4)),
    case("linspace", ops.linspace, normal(3), normal(2, 1), num=5, retstep=True, axis=1),
    case("linspace", ops.linspace, normal(3), normal(3), num=4, endpoint=False),
    case("vander", ops.vander, normal(4), N=4),
    case("copy", ops.copy, normal(4)),
]
