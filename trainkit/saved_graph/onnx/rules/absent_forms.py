"""Operations without a form in ONNX, and why: each is a part of the error that names it."""

from __future__ import annotations

from trainkit.ops.convolutional import pooling_argmax as pooling_argmax  # these declare operations
from trainkit.ops.images import patches as patches
from trainkit.ops.indexing import integer_tables as integer_tables
from trainkit.ops.neural import bias_activation as bias_activation
from trainkit.ops.neural import dropout as dropout
from trainkit.ops.neural import group_normalization as group_normalization
from trainkit.ops.neural import recurrence as recurrence
from trainkit.ops.special import bessel as bessel
from trainkit.ops.special import integrals as integrals
from trainkit.saved_graph.onnx.rules.onnx_form import no_onnx_form

no_onnx_form(
    "LAPACK computes it, and ONNX has no such operator; compute it outside",
    "cholesky", "eig", "eigh", "expm", "inv", "lu_factor", "pinv", "pivots_to_permutation", "qr",
    "singular_values", "slogdet", "solve", "solve_triangular", "svd",
)  # fmt: skip
no_onnx_form(
    "ONNX has no such function",
    "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_y0",
    "bessel_y1", "betainc", "dawsn", "digamma", "erfcinv", "erfinv", "expint", "fresnel_cos",
    "fresnel_sin", "gcd", "i0", "i0e", "i1", "i1e", "igamma", "igammac", "lcm", "lgamma", "ndtri",
    "nextafter", "polygamma", "spence", "zeta",
)  # fmt: skip
no_onnx_form(
    "ONNX hashes nothing; apply it to the data, and export what follows",
    "crossed_buckets", "hash_buckets",
)  # fmt: skip
no_onnx_form(
    "it writes into a tensor at a key; tk.tensor_scatter_nd_update and tk.where are written",
    "with_items",
)  # fmt: skip
no_onnx_form("bits of another type are read, which ONNX can't below opset 26", "view")
no_onnx_form("any order within the parts is right, so a file has none; sort", "argpartition")
no_onnx_form(
    "it goes through paths of labels that depend on values; decode the results outside",
    "ctc_decode", "ctc_loss",
)  # fmt: skip
no_onnx_form(
    "it belongs to a gradient, or to the training of a model; export what predicts",
    "add_at_argmax", "attention_gradient", "average_pool_gradient", "biased_gelu_gradient",
    "conv_input_gradient", "conv_kernel_gradient", "ctc_gradient", "dense_gradient", "diagonal_put",
    "dropped", "embedding_gradient", "fft_transposed", "fused_normalization_gradient",
    "gather_nd_sum", "gelu_erf_gradient", "gelu_tanh_gradient", "grouped_normalization_gradient",
    "gru_gradient", "ifft_transposed", "igamma_slope", "irfft_transposed", "keep_between",
    "leaky_relu_gradient", "lstm_gradient",
    "max_pool_gradient", "max_pool_pick", "no_gradient_here", "pad_sum", "padded_like",
    "patches_sum", "put_item", "put_item_at", "quantile_gather", "quantile_spread",
    "rectified_gradient", "relu_gradient", "repeat_sum", "rfft_transposed", "scaled_rows",
    "sequences_sum", "silu_gradient", "slice_like", "softmax_cross_entropy_and_slopes",
    "softmax_cross_entropy_gradient", "softmax_gradient", "sparse_softmax_cross_entropy_and_slopes",
    "sparse_softmax_cross_entropy_gradient", "sparsemax_weights", "split_like", "spread",
    "standardized_gradient", "sum_to_like", "take_along_axis_sum", "take_at_argmax", "take_sum",
    "tensor_array_padded", "tensor_array_placed", "tensor_array_without", "tile_sum",
    "tile_sum_sized", "unfold_gradient",
)  # fmt: skip
