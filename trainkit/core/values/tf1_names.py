"""Names of TensorFlow 1 that version 2 and trainkit spell otherwise: for errors, and `compat.v1`.

A key with a dot is a name of one namespace, such as `metrics.mean`; others are looked for in all.
"""

from __future__ import annotations

# By namespaces of `tk`, names that stood directly below `tf` as well, or nowhere else.
_MOVED = {
    "debugging": (
        "assert_greater_equal assert_integer assert_less_equal assert_near assert_negative "
        "assert_non_negative assert_non_positive assert_none_equal assert_positive "
        "assert_proper_iterable assert_rank_at_least assert_rank_in assert_same_float_dtype "
        "assert_scalar assert_shapes assert_type check_numerics is_numeric_tensor"
    ),
    "errors": "OpError",
    "image": "random_crop",
    "io": (
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature decode_base64 "
        "decode_csv decode_raw encode_base64 matching_files parse_example "
        "parse_single_example parse_tensor read_file serialize_tensor write_file"
    ),
    "linalg": "cholesky cholesky_solve cross global_norm matrix_transpose qr svd trace",
    "math": (
        "accumulate_n angle betainc bincount ceil confusion_matrix conj cumprod digamma erfc "
        "floormod igamma igammac imag invert_permutation is_finite is_inf is_nan "
        "is_non_decreasing is_strictly_increasing lbeta lgamma log_sigmoid logical_xor "
        "polygamma real reciprocal rint segment_max segment_mean segment_min segment_prod "
        "segment_sum squared_difference unsorted_segment_max unsorted_segment_mean "
        "unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum "
        "zeta"
    ),
    "nn": "depth_to_space space_to_depth",
    "random": "truncated_normal",
    "signal": "fft fft2d fft3d ifft ifft2d ifft3d",
    "strings": "regex_replace",
}

RENAMED = {
    **{name: f"{space}.{name}" for space, names in _MOVED.items() for name in names.split()},
    "batch_matmul": "matmul",
    "batch_to_space_nd": "batch_to_space",
    "complex_abs": "abs",
    "concat_v2": "concat",
    "decode_image": "image.decode_image",
    "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part",
    "dimension_value": "compat.dimension_value",
    "div_no_nan": "math.divide_no_nan",
    "image.extract_image_patches": "image.extract_patches",
    "extract_image_patches": "image.extract_patches",
    "image.resize_image_with_crop_or_pad": "image.resize_with_crop_or_pad",
    "image.transpose_image": "image.transpose",
    "image.resize_image_with_pad": "image.resize_with_pad",
    "inv": "math.reciprocal",
    "lin_space": "linspace",
    "linalg.transpose": "linalg.matrix_transpose",
    "losses.cosine": "losses.cosine_similarity",
    "losses.cosine_proximity": "losses.cosine_similarity",
    "metrics.cosine": "losses.cosine_similarity",
    "metrics.cosine_proximity": "losses.cosine_similarity",
    "matrix_band_part": "linalg.band_part",
    "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag",
    "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv",
    "matrix_set_diag": "linalg.set_diag",
    "matrix_solve": "linalg.solve",
    "matrix_solve_ls": "linalg.lstsq",
    "matrix_triangular_solve": "linalg.triangular_solve",
    "mod": "math.floormod",
    "mul": "multiply",
    "neg": "negative",
    "nn.avg_pool_v2": "nn.avg_pool",
    "nn.ctc_beam_search_decoder_v2": "nn.ctc_beam_search_decoder",
    "nn.depthwise_conv2d_native": "nn.depthwise_conv2d",
    "nn.max_pool_v2": "nn.max_pool",
    "nn.softmax_cross_entropy_with_logits_v2": "nn.softmax_cross_entropy_with_logits",
    "pack": "stack",
    "random_gamma": "random.gamma",
    "random_poisson": "random.poisson",
    "random_shuffle": "random.shuffle",
    "reverse_v2": "reverse",
    "select": "where",
    "self_adjoint_eig": "linalg.eigh",
    "self_adjoint_eigvals": "linalg.eigvalsh",
    "set_random_seed": "random.set_seed",
    "split_v": "split",
    "string_join": "strings.join",
    "string_split": "strings.split",
    "string_strip": "strings.strip",
    "string_to_hash_bucket": "strings.to_hash_bucket",
    "string_to_hash_bucket_fast": "strings.to_hash_bucket_fast",
    "string_to_hash_bucket_strong": "strings.to_hash_bucket_strong",
    "string_to_number": "strings.to_number",
    "sub": "subtract",
    "substr": "strings.substr",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update",
    "train.NewCheckpointReader": "train.load_checkpoint",
    "train.match_filenames_once": "io.matching_files",
    "unpack": "unstack",
    "verify_tensor_all_finite": "debugging.assert_all_finite",
}
"""By names of version 1, the paths below `tk` of what takes the same place."""

_SESSION = (
    "operations give their values at once; for graphs of version 1, tk.compat.v1.Session inside "
    "`with tk.compat.v1.Graph().as_default():`"
)
_FEED = "write a function of it, under @tk.function; tk.keras.Input is that of a model"
_MEMORY = "use tk.config, e.g. tk.config.experimental.set_memory_growth"
_INITIALIZED = "variables have their values once they exist; leave the line out"
_VARIABLES = "variables are those of a model, layer or tk.Module, e.g. model.trainable_variables"
_COLLECTIONS = "nothing is collected globally; a layer has weights, losses and metrics"
_SHARED = "layers and tk.Variable are objects: call the same one to use its weights again"
_SWITCH = "version 2's behaviour is the only one; leave the line out"
_SAVER = "here it is tk.train.Checkpoint, or save_weights of a model"
_HOOKS = "here they are tk.keras.callbacks, for fit"
_LOOP = "use fit of tk.keras.Model, or a loop over a tk.data.Dataset"
_QUEUES = "here it is tk.data.Dataset, with shuffle and batch"
_READER = (
    "here it is tk.data.TFRecordDataset, TextLineDataset or FixedLengthRecordDataset of tk.data"
)
_STEP = "a tk.Variable(0, dtype='int64') counts; optimizers have iterations"
_RNN = "here it is tk.keras.layers.RNN, or LSTM and GRU of tk.keras.layers"
_CELLS = "here they are LSTMCell, GRUCell and StackedRNNCells of tk.keras.layers"
_DECAY = "here it is tk.keras.optimizers.schedules"
_WRITER = (
    "here it is tk.summary.create_file_writer, used as a context; scalar and so on take a step"
)
_LOGGING = "use logging of Python; tk.compat.v1.logging has version 1's functions"
_LOSS = "here it is tk.keras.losses"
_FLAGS = "use argparse of Python, or absl-py"
_CONTRIB = "contrib is gone: look in tk.keras, tk.data and tk.nn for what you need"
_ASSIGN = "here it is a method: variable"
_CAST = "here it is tk.cast"
_DENSE = "here it is tk.keras.layers.Dense"
_SPARSE_ONLY = "sparse tensors are not part of trainkit; use dense tensors with masks"
_PROBABILITY = "distributions are left out; see tk.random and tk.math for their parts"

NAMES = {
    **{name: f"here it is tk.{path}" for name, path in RENAMED.items()},
    **{name: f"here it is tk.optimizers.{name.removesuffix('Optimizer')}" for name in (
        "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer",
    )},
    "GradientDescentOptimizer": "here it is tk.optimizers.SGD",
    "MomentumOptimizer": "here it is tk.optimizers.SGD with its momentum",
    "RMSPropOptimizer": "here it is tk.optimizers.RMSprop",
    "train.Optimizer": "here it is tk.optimizers.Optimizer",
    **{name: _SESSION for name in (
        "InteractiveSession", "MonitoredTrainingSession", "Session", "get_default_session",
        "MonitoredSession", "SessionManager", "Supervisor",
    )},
    "AUTO_REUSE": _SHARED,
    "Print": "here it is tk.print",
    "app": _FLAGS,
    "flags": _FLAGS,
    "contrib": _CONTRIB,
    **{name: _MEMORY for name in (
        "ConfigProto", "GPUOptions", "GraphOptions", "OptimizerOptions", "RunMetadata",
        "RunOptions",
    )},
    **{name: "graphs are those of tk.function; see tk.saved_graph for files of them" for name in (
        "GraphDef", "MetaGraphDef", "NodeDef", "export_meta_graph", "import_meta_graph",
    )},
    "get_default_graph": "graphs are those of tk.function; tk.compat.v1.get_default_graph is its",
    "reset_default_graph": "there is no default graph; leave the line out",
    "placeholder": _FEED,
    "placeholder_with_default": _FEED,
    "sparse_placeholder": _SPARSE_ONLY,
    "sparse_to_dense": "here it is tk.scatter_nd",
    **{name: _INITIALIZED for name in (
        "global_variables_initializer", "initialize_all_variables", "initialize_all_tables",
        "initialize_local_variables", "initialize_variables", "is_variable_initialized",
        "local_variables_initializer", "report_uninitialized_variables", "tables_initializer",
        "variables_initializer",
    )},
    **{name: _VARIABLES for name in (
        "all_variables", "global_variables", "local_variables", "model_variables",
        "moving_average_variables", "trainable_variables",
    )},
    **{name: _COLLECTIONS for name in (
        "GraphKeys", "add_to_collection", "add_to_collections", "get_collection",
        "get_collection_ref",
    )},
    "get_variable": "here it is tk.Variable, or add_weight of a layer",
    "get_local_variable": "here it is tk.Variable",
    **{name: _SHARED for name in (
        "VariableScope", "get_variable_scope", "make_template", "variable_op_scope",
        "variable_scope",
    )},
    "op_scope": "here it is tk.name_scope",
    **{name: _SWITCH for name in (
        "disable_control_flow_v2", "disable_eager_execution", "disable_resource_variables",
        "disable_tensor_equality", "disable_v2_behavior", "disable_v2_tensorshape",
        "enable_control_flow_v2", "enable_resource_variables", "enable_tensor_equality",
        "enable_v2_behavior", "enable_v2_tensorshape",
    )},
    "Dimension": "sizes are numbers, None where they are not known",
    **{name: f"{_ASSIGN}.{name}" for name in ("assign", "assign_add", "assign_sub")},
    **{name: f"{_ASSIGN}.{name}" for name in (
        "scatter_add", "scatter_div", "scatter_max", "scatter_min", "scatter_mul",
        "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_sub", "scatter_update",
    )},
    **{
        f"to_{name}": f"{_CAST}(x, '{dtype}')"
        for name, dtype in {
            "bfloat16": "bfloat16", "complex64": "complex64", "complex128": "complex128",
            "double": "float64", "float": "float32", "int32": "int32", "int64": "int64",
        }.items()
    },
    "batch_gather": "here it is tk.gather with batch_dims",
    "count_nonzero": "here it is tk.math.count_nonzero",
    "div": "here it is tk.divide, or tk.math.floordiv for whole numbers",
    "multinomial": "here it is tk.random.categorical",
    "listdiff": "use numpy.setdiff1d",
    "setdiff1d": "use numpy.setdiff1d",
    "py_func": "here it is tk.py_function, or tk.numpy_function",
    "wrap_function": "here it is tk.function",
    "get_seed": "here it is tk.random.set_seed; a tk.random.Generator has a state",
    "sparse_tensor_dense_matmul": _SPARSE_ONLY,
    "sparse_tensor_to_dense": _SPARSE_ONLY,
    "SparseTensorValue": _SPARSE_ONLY,
    "distributions": _PROBABILITY,
    "estimator": "use tk.keras.Model",
    "feature_column": "use layers of tk.keras, e.g. CategoryEncoding and Hashing",
    "gfile": "here it is tk.io.gfile, in small letters: exists, glob, makedirs, GFile",
    "FastGFile": "here it is tk.io.gfile.GFile",
    "logging": _LOGGING,
    "manip": "here its names are directly below tk, e.g. tk.roll",
    "spectral": "here it is tk.signal",
    "python_io": "here it is tk.io.TFRecordWriter; tk.data.TFRecordDataset reads",
    "tf_record_iterator": "here it is tk.data.TFRecordDataset",
    "resource_loader": "use importlib.resources of Python",
    "user_ops": "operations are written in Python; see tk.custom_gradient",
    "layers.batch_normalization": "here it is tk.keras.layers.BatchNormalization",
    "layers.conv1d": "here it is tk.keras.layers.Conv1D",
    "layers.conv2d": "here it is tk.keras.layers.Conv2D",
    "layers.conv3d": "here it is tk.keras.layers.Conv3D",
    "layers.conv2d_transpose": "here it is tk.keras.layers.Conv2DTranspose",
    "layers.separable_conv2d": "here it is tk.keras.layers.SeparableConv2D",
    "layers.max_pooling1d": "here it is tk.keras.layers.MaxPooling1D",
    "layers.max_pooling2d": "here it is tk.keras.layers.MaxPooling2D",
    "layers.average_pooling2d": "here it is tk.keras.layers.AveragePooling2D",
    "layers.flatten": "here it is tk.keras.layers.Flatten",
    "losses.absolute_difference": f"{_LOSS}.MeanAbsoluteError",
    "losses.add_loss": "here it is add_loss of a layer",
    "losses.compute_weighted_loss": "losses of tk.keras.losses take sample_weight",
    "losses.cosine_distance": f"{_LOSS}.CosineSimilarity, of the other sign",
    "losses.get_losses": "here it is losses of a model or layer",
    "losses.get_regularization_loss": "here it is the sum of losses of a model or layer",
    "losses.get_regularization_losses": "here it is losses of a model or layer",
    "losses.get_total_loss": "here it is the sum of losses of a model, and of your own loss",
    "losses.hinge_loss": f"{_LOSS}.Hinge",
    "losses.huber_loss": f"{_LOSS}.Huber",
    "losses.log_loss": f"{_LOSS}.BinaryCrossentropy",
    "losses.sigmoid_cross_entropy": f"{_LOSS}.BinaryCrossentropy(from_logits=True)",
    "losses.softmax_cross_entropy": f"{_LOSS}.CategoricalCrossentropy(from_logits=True)",
    "losses.sparse_softmax_cross_entropy": (
        f"{_LOSS}.SparseCategoricalCrossentropy(from_logits=True)"
    ),
    "metrics.auc": "here it is tk.keras.metrics.AUC",
    "metrics.mean": "here it is tk.keras.metrics.Mean",
    "metrics.mean_iou": "here it is tk.keras.metrics.MeanIoU",
    "metrics.precision": "here it is tk.keras.metrics.Precision",
    "metrics.recall": "here it is tk.keras.metrics.Recall",
    "metrics.root_mean_squared_error": "here it is tk.keras.metrics.RootMeanSquaredError",
    "nn.bidirectional_dynamic_rnn": "here it is tk.keras.layers.Bidirectional",
    "nn.dynamic_rnn": _RNN,
    "nn.raw_rnn": _RNN,
    "nn.static_rnn": _RNN,
    "nn.static_bidirectional_rnn": "here it is tk.keras.layers.Bidirectional",
    "nn.rnn_cell": _CELLS,
    "nn.relu_layer": _DENSE,
    "nn.xw_plus_b": _DENSE,
    "nn.fused_batch_norm": "here it is tk.keras.layers.BatchNormalization",
    "image.resize_area": "here it is tk.image.resize with method='area'",
    "image.resize_bicubic": "here it is tk.image.resize with method='bicubic'",
    "image.resize_bilinear": "here it is tk.image.resize with method='bilinear'",
    "image.resize_images": "here it is tk.image.resize",
    "image.resize_nearest_neighbor": "here it is tk.image.resize with method='nearest'",
    "resize_images": "here it is tk.image.resize",
    "data.get_output_classes": "use element_spec of the data set",
    "data.get_output_shapes": "use element_spec of the data set",
    "data.get_output_types": "use element_spec of the data set",
    "make_initializable_iterator": "a data set is iterated itself: for x in dataset",
    "make_one_shot_iterator": "a data set is iterated itself: for x in dataset",
    **{f"summary.{name}": _WRITER for name in (
        "FileWriter", "FileWriterCache", "initialize", "merge", "merge_all", "tensor_summary",
    )},
    **{name: _WRITER for name in (
        "SummaryWriter", "audio_summary", "histogram_summary", "image_summary",
        "merge_all_summaries", "merge_summary", "scalar_summary",
    )},
    "train.Saver": _SAVER,
    "train.SaverDef": _SAVER,
    "train.Scaffold": _LOOP,
    "train.checkpoint_exists": "here it is tk.train.latest_checkpoint, which gives None",
    "train.init_from_checkpoint": "here it is tk.train.Checkpoint(...).restore",
    "train.warm_start": "here it is tk.train.Checkpoint(...).restore",
    "train.basic_train_loop": _LOOP,
    **{f"train.{name}": _STEP for name in (
        "assert_global_step", "create_global_step", "get_global_step",
        "get_or_create_global_step", "global_step",
    )},
    **{f"train.{name}": _HOOKS for name in (
        "CheckpointSaverHook", "FinalOpsHook", "LoggingTensorHook", "NanTensorHook",
        "ProfilerHook", "SessionRunHook", "StepCounterHook", "StopAtStepHook",
        "SummarySaverHook",
    )},
    **{f"train.{name}": _QUEUES for name in (
        "QueueRunner", "add_queue_runner", "batch", "batch_join", "input_producer",
        "limit_epochs", "range_input_producer", "shuffle_batch", "shuffle_batch_join",
        "slice_input_producer", "start_queue_runners", "string_input_producer",
    )},
    **{f"train.{name}": f"{_DECAY}.{kind}" for name, kind in {
        "cosine_decay": "CosineDecay", "cosine_decay_restarts": "CosineDecayRestarts",
        "exponential_decay": "ExponentialDecay", "inverse_time_decay": "InverseTimeDecay",
        "piecewise_constant": "PiecewiseConstantDecay",
        "piecewise_constant_decay": "PiecewiseConstantDecay",
        "polynomial_decay": "PolynomialDecay",
    }.items()},
    "train.replica_device_setter": "see tk.distribute",
    "train.summary_iterator": "see python -m trainkit, whose commands read summaries",
    **{name: _READER for name in (
        "FixedLengthRecordReader", "IdentityReader", "LMDBReader", "ReaderBase",
        "TFRecordReader", "TextLineReader", "WholeFileReader",
    )},
    **{name: "here it is tk.lookup" for name in ("HashTable", "MutableHashTable")},
}  # fmt: skip
"""By names, with the namespace where that decides, what to use."""


def advice_on(module: str, name: str) -> str | None:
    """What to use for a name of version 1 that was asked of a module.

    Args:
        module: such as `"trainkit.train"`.
        name: what was asked for.
    """
    space = module.rpartition(".")[2]
    return NAMES.get(f"{space}.{name}") or NAMES.get(name)
