"""Names of TensorFlow 2 that are left out on purpose, and what to use instead.

Asking for one raises `AttributeError` with these words; docs/tensorflow_names.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core import names
from trainkit.core.names import NamesBelow, unknown_name

_SPARSE = "sparse tensors are not part of trainkit; use dense tensors with masks"
_RAGGED = "ragged tensors are not part of trainkit; use dense tensors with tk.sequence_mask"
_QUANTIZED = "quantized element types are not part of trainkit; use int8, uint8 or float16"
_SAMPLER = "candidate samplers are left out; draw with tk.random.uniform or tk.random.categorical"
_SAMPLED = "sampled losses are left out; use tk.nn.sparse_softmax_cross_entropy_with_logits"
_CODEC = "PNG, JPEG, GIF, BMP and WebP are read; use Pillow or imageio for other formats"
_PLACEMENT = "devices are chosen with tk.device; CUDA_VISIBLE_DEVICES hides GPUs"
_CLUSTER = "a launcher such as mpiexec starts the processes; see tk.distribute"
_OPERATOR = "LinearOperators are left out; use matrices with tk.linalg"
_EXTENSION = "use a dataclass or a NamedTuple of tensors, which functions take and give"
_SPEC = "use tk.TensorSpec; None and nests of specs stand for themselves"
_LIBRARY = "operations are written in Python; see tk.custom_gradient and tk.numpy_function"
_DISPATCH = "operations take tensors; convert by __array__ or __dlpack__ of the class"
_SMALL_TYPES = "elements have 8 bits or more, floats 16; see tk.quantizers for weights of fewer"
_ASYNC = "calls on the CPU are done when they return; a GPU's errors are raised where it is read"
_BRIDGE = "there is no MLIR; see jit_compile of tk.function"
_GPU_MEMORY = "see cupy.get_default_memory_pool()"
_SHARDS = "each process writes one file of a checkpoint"
_TIMES = "use timeit of Python, or pytest-benchmark"
_APPROX = "use tk.math.top_k, which is exact"

_VERSION_1_LOSSES = "version 1's losses are scalars; use tk.losses, e.g. MeanSquaredError()"
_VERSION_1_METRICS = "version 1's metrics are pairs of a value and an update; use tk.metrics"
_VERSION_1_SUMMARIES = "version 1's summaries are tensors; use tk.summary, which takes a step"

_GRAPH_MODE = (
    "graphs of version 1 are built inside `with tk.compat.v1.Graph().as_default():`; the rest of "
    "a program runs eagerly"
)

LEFT_OUT: dict[str, dict[str, str]] = {
    "": {
        "AggregationMethod": "gradients are always added up",
        "CriticalSection": "use threading.Lock",
        "DeviceSpec": "devices are strings; see tk.device",
        "IndexedSlicesSpec": _SPEC,
        "NoneTensorSpec": _SPEC,
        "Operation": "see tk.function(...).get_concrete_function(...).graph",
        "OptionalSpec": _SPEC,
        "RaggedTensor": _RAGGED,
        "RaggedTensorSpec": _RAGGED,
        "RegisterGradient": "use tk.custom_gradient",
        "SparseTensor": _SPARSE,
        "SparseTensorSpec": _SPARSE,
        "TensorArraySpec": _SPEC,
        "TypeSpec": "use tk.TensorSpec",
        "approx_top_k": _APPROX,
        "conv": "use tk.nn.convolution",
        "conv2d_backprop_filter_v2": "use tk.GradientTape",
        "conv2d_backprop_input_v2": "use tk.GradientTape",
        "dtensor": _CLUSTER,
        "estimator": "use tk.keras.Model",
        "feature_column": "use layers of tk.keras",
        "fftnd": "use tk.signal.fftnd",
        "get_logger": "use warnings and logging of Python",
        "graph_util": "see tk.saved_graph",
        "ifftnd": "use tk.signal.ifftnd",
        "import_graph_def": "see tk.saved_graph",
        "irfftnd": "use tk.signal.irfftnd",
        "lite": "see tk.saved_graph",
        "load_library": _LIBRARY,
        "load_op_library": _LIBRARY,
        "no_gradient": "use tk.stop_gradient",
        "quantization": _QUANTIZED,
        "queue": "use queue.Queue, or tk.data",
        "ragged": _RAGGED,
        "ragged_fill_empty_rows": _RAGGED,
        "ragged_fill_empty_rows_grad": _RAGGED,
        "random_index_shuffle": "use tk.random.shuffle, or shuffle of tk.data.Dataset",
        "raw_ops": "use tk.ops",
        "register_tensor_conversion_function": "give the class __array__ or __dlpack__",
        "resource": "variables are no tensors of handles; see tk.Variable",
        "rfftnd": "use tk.signal.rfftnd",
        "sets": "use numpy.intersect1d and its relatives",
        "sparse": _SPARSE,
        "tpu": _CLUSTER,
        "variant": "there are no tensors of objects; use nests",
        "variable_creator_scope": "give arguments to tk.Variable itself",
        "xla": "tk.function compiles by itself",
        **{name: _QUANTIZED for name in ("qint8", "qint16", "qint32", "quint8", "quint16")},
    },
    "math": {
        "approx_max_k": _APPROX,
        "approx_min_k": _APPROX,
        "sobol_sample": "use scipy.stats.qmc.Sobol",
    },
    "nn": {
        "RNNCellDeviceWrapper": "use tk.device around the call",
        "RNNCellDropoutWrapper": "use the dropout arguments of the cells in tk.keras.layers",
        "RNNCellResidualWrapper": "add the input in a cell of your own",
        "approx_max_k": _APPROX,
        "approx_min_k": _APPROX,
        "ctc_unique_labels": "ctc_loss needs no help with equal labels; leave `unique` out",
        "depthwise_conv2d_backprop_filter": "use tk.GradientTape",
        "depthwise_conv2d_backprop_input": "use tk.GradientTape",
        "embedding_lookup_sparse": _SPARSE,
        "fractional_avg_pool": "use avg_pool, or tk.image.resize",
        "fractional_max_pool": "use max_pool, or tk.image.resize",
        "isotonic_regression": "use sklearn.isotonic",
        "nce_loss": _SAMPLED,
        "safe_embedding_lookup_sparse": _SPARSE,
        "sampled_softmax_loss": _SAMPLED,
        "with_space_to_batch": "use the `dilations` of tk.nn.convolution",
        "all_candidate_sampler": _SAMPLER,
        "compute_accidental_hits": _SAMPLER,
        "fixed_unigram_candidate_sampler": _SAMPLER,
        "learned_unigram_candidate_sampler": _SAMPLER,
    },
    "linalg": {
        "experimental": "use scipy.sparse.linalg.cg",
        **{"LinearOperator" + kind: _OPERATOR
        for kind in (
            "", "Adjoint", "BlockDiag", "BlockLowerTriangular", "Circulant", "Circulant2D",
            "Circulant3D", "Composition", "Diag", "FullMatrix", "Householder", "Identity",
            "Inversion", "Kronecker", "LowRankUpdate", "LowerTriangular", "Permutation",
            "ScaledIdentity", "Toeplitz", "Tridiag", "Zeros",
        )},
    },
    "image": {
        "combined_non_max_suppression": "call non_max_suppression for each class",
        "extract_glimpse": "use crop_and_resize",
        "generate_bounding_box_proposals": "use non_max_suppression_with_scores",
        "decode_jxl": _CODEC,
        "random_jpeg_quality": "draw a quality and use adjust_jpeg_quality",
        "stateless_random_jpeg_quality": "draw a quality and use adjust_jpeg_quality",
    },
    "io": {
        "decode_compressed": "use zlib or gzip of Python",
        "decode_jxl": _CODEC,
        "decode_json_example": "see google.protobuf.json_format",
        "decode_proto": "use the classes of google.protobuf",
        "deserialize_many_sparse": _SPARSE,
        "encode_proto": "use the classes of google.protobuf",
        "parse_sequence_example": "see tk.train.SequenceExample.FromString",
        "parse_single_sequence_example": "see tk.train.SequenceExample.FromString",
        "serialize_many_sparse": _SPARSE,
        "serialize_sparse": _SPARSE,
        "write_graph": "see tk.saved_graph",
    },
    "strings": {
        "ngrams": "join slices of the words",
        "unicode_decode_with_offsets": "use unicode_decode",
        "unicode_split_with_offsets": "use unicode_split",
        "unsorted_segment_join": "use Python's str.join",
    },
    "autograph": {
        "set_verbosity": "tk.autograph.to_code shows what a function has become",
        "trace": "use Python's print, which runs when a function is traced",
    },
    "debugging": {
        "experimental": "use tk.debugging.enable_check_numerics, or tk.profiler",
    },
    "config": {
        "LogicalDeviceConfiguration": _PLACEMENT,
        "experimental_connect_to_cluster": _CLUSTER,
        "experimental_connect_to_host": _CLUSTER,
        "get_logical_device_configuration": _PLACEMENT,
        "optimizer": "passes over graphs have no switches",
        "set_logical_device_configuration": _PLACEMENT,
        "set_visible_devices": _PLACEMENT,
    },
    "config.experimental": {
        "ClusterDeviceFilters": _CLUSTER,
        "VirtualDeviceConfiguration": _PLACEMENT,
        "disable_mlir_bridge": _BRIDGE,
        "enable_mlir_bridge": _BRIDGE,
        "get_device_details": "`python -m trainkit doctor` says what each device is",
        "get_device_policy": "see tk.config.get_soft_device_placement",
        "get_memory_info": _GPU_MEMORY,
        "get_memory_usage": _GPU_MEMORY,
        "get_synchronous_execution": _ASYNC,
        "get_virtual_device_configuration": _PLACEMENT,
        "reset_memory_stats": _GPU_MEMORY,
        "set_device_policy": "see tk.config.set_soft_device_placement",
        "set_synchronous_execution": _ASYNC,
        "set_virtual_device_configuration": _PLACEMENT,
        "set_visible_devices": _PLACEMENT,
    },
    "experimental": {
        "BatchableExtensionType": _EXTENSION,
        "DynamicRaggedShape": _RAGGED,
        "ExtensionType": _EXTENSION,
        "ExtensionTypeBatchEncoder": _EXTENSION,
        "ExtensionTypeSpec": _EXTENSION,
        "RowPartition": _RAGGED,
        "StructuredTensor": _RAGGED,
        "async_clear_error": _ASYNC,
        "async_scope": _ASYNC,
        "dispatch_for_api": _DISPATCH,
        "dispatch_for_binary_elementwise_apis": _DISPATCH,
        "dispatch_for_binary_elementwise_assert_apis": _DISPATCH,
        "dispatch_for_unary_elementwise_apis": _DISPATCH,
        "enable_strict_mode": "there are no deprecated names to refuse",
        "extension_type": _EXTENSION,
        "function_executor_type": "see jit_compile of tk.function",
        "register_filesystem_plugin": "register file systems with fsspec",
        "tensorrt": "export to ONNX, which TensorRT reads",
        "unregister_dispatch_for": _DISPATCH,
        **{name: _SMALL_TYPES for name in ("int2", "int4", "uint2", "uint4", "float4_e2m1fn")},
        **{
            "float8_" + kind: _SMALL_TYPES
            for kind in ("e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")
        },
        "dlpack": "tk.array_api.from_dlpack and x.__dlpack__() exchange arrays",
        "dtensor": _CLUSTER,
        "numpy": "use NumPy's names in tk.ops",
    },
    "compat.v1": {
        "disable_eager_execution": _GRAPH_MODE,
        "disable_v2_behavior": _GRAPH_MODE,
        "losses": _VERSION_1_LOSSES,
        "metrics": _VERSION_1_METRICS,
        "summary": _VERSION_1_SUMMARIES,
    },
    "compat.v1.image": {
        "resize": "version 1 takes pixels for points, not areas; use tk.image.resize",
    },
    "compat.v1.math": {
        "in_top_k": "version 1 takes (predictions, targets); use tk.math.in_top_k",
    },
    "compat.v1.nn": {
        "in_top_k": "version 1 takes (predictions, targets); use tk.math.in_top_k",
    },
    "compat.v1.random": {
        "poisson": "version 1 takes (lam, shape); use tk.random.poisson(shape, lam)",
    },
    "dtypes": {
        "QUANTIZED_DTYPES": _QUANTIZED,
        "resource": "variables are no tensors of handles; see tk.Variable",
        "variant": "there are no tensors of objects; use nests",
        **{name: _QUANTIZED for name in ("qint8", "qint16", "qint32", "quint8", "quint16")},
    },
    "test": {
        "Benchmark": _TIMES,
        "assert_equal_graph_def": "compare what as_graph_def gives by ==",
        "benchmark_config": _TIMES,
        "create_local_cluster": _CLUSTER,
        "disable_with_predicate": "use pytest.mark.skipif",
        "experimental": "calls on the CPU are done when they return; x.numpy() waits for a GPU",
        "with_eager_op_as_function": "use tk.config.run_functions_eagerly",
    },
    "train.experimental": {
        "MaxShardSizePolicy": _SHARDS,
        "ShardByTaskPolicy": _SHARDS,
        "ShardableTensor": _SHARDS,
        "ShardingCallback": _SHARDS,
    },
    "train": {
        "Coordinator": "use threading, or tk.data",
        "CheckpointView": "use load_checkpoint or list_variables",
        "TrackableView": "use tk.Module.submodules",
        **{name: _CLUSTER for name in ("ClusterDef", "ClusterSpec", "JobDef", "ServerDef")},
    },
}  # fmt: skip


def namespace(space: str, **members: Any) -> NamesBelow:
    """Names below a namespace of `tk`, such as those of `tk.config.experimental`.

    Args:
        space: `"config.experimental"` and so on.
        **members: what it has.
    """
    return NamesBelow(f"trainkit.{space}", LEFT_OUT.get(space), **members)


def not_here(space: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a namespace does not have.

    Args:
        space: `"math"`, `"nn"` and so on; `""` is `tk` itself.
        name: what was asked for.
        known: what is there.
    """
    where = f"trainkit.{space}" if space else "trainkit"
    public = (n for n in known if not n.startswith("_"))
    return unknown_name(where, name, public, LEFT_OUT.get(space))


def explain_unknown_names(space: str, namespace: dict[str, Any]) -> None:
    """Let a namespace say what to use for names that it leaves out, or which are near.

    Args:
        space: `"math"`, `"nn"` and so on.
        namespace: `globals()` of the module.
    """
    names.explain_unknown_names(namespace, f"trainkit.{space}", LEFT_OUT.get(space))
