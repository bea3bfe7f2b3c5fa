"""What is known of each number: it is varied, compared with one that is, of no machine, or data.

Each number in upper case of `FOLDERS` is in `ROWS`, in a list below, or in a file for GPUs.
"""

import pathlib
import re

from constant_calls import FRESH
from constant_numbers import Number, numbers
from constant_rows import ROWS, Row

FOLDERS = ("kernels", "compiler", "graph", "core", "autodiff", "optimizers", "ops/neural")

VARIED_WITH = {
    "PART_NANOSECONDS": """
        core/cpu/cost_model.py PRODUCT_NANOSECONDS BYTE_NANOSECONDS FUNCTION_NANOSECONDS
    """,
    "SWITCH_SECONDS": """
        kernels/jit/kernel_family.py BYTE_SECONDS FUNCTION_SECONDS STEP_SECONDS
    """,
}
"""Numbers that are only compared with another: that one at a quarter is all of these at four times.

The nanoseconds of kernels are divided by those of a part, and the seconds of plain versions are
added up until they are those of the switch.
"""

OF_NO_MACHINE = {
    "read of the machine, and what of that is believed": """
        core/cpu/processor.py _LEAST _MOST
    """,
    "what is served, kept or said, and how much": """
        autodiff/explain.py MOST_EXITS
        compiler/llvm/module.py _LONGEST_ENTRY
        core/cpu/cost_model.py MOST_BYTES
        core/dispatch/formulas.py MOST_STEPS
        core/dispatch/known_sizes.py _LARGEST
        core/process/garbage.py NEW_BYTES
        core/process/side_work.py TURN_SECONDS EXIT_SECONDS COMPILER_SECONDS NICENESS
        core/shapes.py CALLS
        graph/control_flow/host_tapes.py MOST_ORPHANS
        graph/ir/assigned_devices.py _MOST_NODES
        graph/runtime/fusion.py MOST_STEPS
        graph/runtime/general_fusion.py _MOST_UNKNOWN _BISECTIONS
        graph/runtime/lasting_values.py FEWEST_NODES
        graph/runtime/programs_by_size.py _MOST_PROGRAMS
        graph/runtime/values_of_sizes.py MOST_CHOICES
        graph/runtime/tiers.py CHANGED_BYTES LONG_GRAPH
        kernels/convolution/depthwise_tuned.py WIDEST _NEAR _FEWEST_VECTORS
        kernels/convolution/gathered_tuned.py _RUN_NANOSECONDS
        kernels/convolution/phases_tuned.py _NARROW
        kernels/convolution/transform_costs.py _COSTS
        kernels/convolution/winograd_tuned.py LEAST_WORK _FEWEST_TILES
        kernels/embedding/row_gradient.py _ID_NANOSECONDS
        kernels/jit/code_store.py _TOUCHED_SECONDS
        kernels/jit/library_builder.py _FEWEST
        optimizers/base/traced_step.py _FEWEST_WEIGHTS
    """,
}
"""By what they stand for, numbers that are the same everywhere; of a tuple, the first name."""

DATA = {
    "what people see: pictures, tables, hints, and when something is said": """
        core/dispatch/slow_work.py PATIENCE_SECONDS
        core/names.py _MOST_COMPARED
        core/values/html_text.py _MOST_PIXELS _PIXEL_SIDE _WIDTH _LIGHT _FEW_VALUES
        core/values/table_columns.py _MOST_COLUMNS
        optimizers/schedules.py _POINTS _USUAL_STEPS
    """,
    "mathematics, and tolerances of tests": """
        autodiff/check.py _STEP _STENCIL
        autodiff/jacobian_pairs.py _STEP
        autodiff/custom_vjp_check.py _TOLERANCE _MOST_ELEMENTS
        autodiff/vjps_on_arrays.py _FULL
        autodiff/test_case.py _SEED _TOLERANCES
        compiler/generalized.py _LARGEST
        core/fingerprints.py _K0 _MURMUR _START
        core/rng.py WORDS_PER_BLOCK WORD_BITS
        graph/tracing/verify.py _RTOL
        kernels/alignment/alignment_compiled.py _FAR
        kernels/convolution/winograd_compiled.py _OFFSETS
        kernels/convolution/winograd_sizes.py STEP
        kernels/convolution/winograd_transforms.py _NEAR _PAIRS
        kernels/elementwise/elementwise_reference.py _ERF_TOP _ERF_BOTTOM _MILLS_TOP _MILLS_BOTTOM
        kernels/elementwise/elementwise_reference.py _SELU_ALPHA _SELU_SCALE
        kernels/elementwise/half_elementwise_compiled.py _ZERO _SIX
        kernels/elementwise/vector_math.py LOG2_E _TOP_BITS
        kernels/elementwise/vector_math.py LOG_2_HIGH LOG_2_LOW _LOG_2 _HALF LEAST
        kernels/random/philox_compiled.py _FIRST _UNIT
        kernels/reductions/reductions_compiled.py _SIGN
        kernels/reductions/reductions_tuned.py _FEWEST_ROWS
        kernels/reductions/reductions_tuned.py _ADDED_AT_ONCE _FEWEST_QUARTERED
        kernels/reductions/row_sums_compiled.py _LANES _DEEPEST
        kernels/special/bessel_reference.py _LEAST_LARGE _PHASE _J0_SMALL _J1_SMALL _Y0_SMALL
        kernels/special/bessel_reference.py _Y1_SMALL _P0 _Q0 _P1 _Q1
        kernels/special/modified_bessel_reference.py _I0_SMALL _I0_LARGE _I1_SMALL _I1_LARGE
        kernels/special/modified_bessel_reference.py _K0_SMALL _K1_SMALL _K0_LARGE _K1_LARGE
        kernels/special/double_math.py _LOG_2_HIGH _LEAST _SHIFT _BIAS _MANTISSA
        kernels/special/double_math.py _EXPONENT_BITS _SQRT_HALF _TINY
        kernels/special/incomplete_compiled.py _LARGE
        kernels/special/special_reference.py _ERF_TOP _ERF_BOTTOM _ERFC_TOP _ERFC_BOTTOM
        kernels/special/special_reference.py _TAIL_TOP _TAIL_BOTTOM _MIDDLE_TOP _MIDDLE_BOTTOM
        kernels/special/special_reference.py _NEAR_TOP _NEAR_BOTTOM _FAR_TOP _FAR_BOTTOM
        kernels/special/special_reference.py BERNOULLI MOST_TERMS START
        kernels/special/special_tuned.py _TOLERANCES
        ops/neural/ctc.py _FAR
        ops/neural/fake_quant.py FLOAT8
        ops/neural/normalization.py EPSILON _LEAST_SQUARE
        ops/neural/synchronized_moments.py _LEAST
    """,
    "formats, names, and interfaces of others": """
        compiler/cuda/cuda_source.py _FEWEST_LONG
        compiler/cuda/cuda_table.py ARGUMENT_BYTES
        compiler/ir.py _FLOAT_BYTES
        compiler/llvm/jit.py _FORMAT
        core/cpu/openblas.py _PTHREADS
        core/cpu/cost_model.py CACHE_LINE
        core/cpu/processor.py _UNITS
        core/devices.py _NO_DEVICE
        core/dispatch/native.py VERSION
        core/dtypes.py PROTO_NUMBERS
        core/values/aggregation.py NONE SUM MEAN ONLY_FIRST_REPLICA
        core/files/folder_descent.py _OTHERS_WRITE _GROUP_WRITES _MOST_LINKS
        core/shapes.py MOST_ELEMENTS
        graph/runtime/joined_convolutions.py _INPUT_COUNTS _KERNEL_POSITIONS
        core/variable_owner.py NONE AUTO ON_WRITE ON_READ
        kernels/convolution/conv_tuned.py _EXPONENT
        kernels/convolution/depthwise_tuned.py MULTIPLIERS
        kernels/convolution/pixels_tuned.py LANES
        kernels/convolution/windows_cuda.py AXES
        kernels/cuda/raw_kernel.py MOST_THREADS ALIGNMENT
        kernels/cudnn/attention_cudnn.py SIZES _FAR_BELOW
        kernels/cudnn/conv_cudnn.py _AXES
        kernels/matmul/matmul_gpu.py _FLOAT_FACTORS _DOUBLE_FACTORS _COMPUTE_TF32 _CUPY_FULL
        kernels/matmul/matmul_gpu.py _DEFAULT_ALGORITHM
        kernels/matmul/prepared_weights.py _PIECE_BYTES
        kernels/jit/bfloat16_pairs.py _ARCH_PRCTL _ASK_FOR_STATE
        kernels/jit/code_store.py _DIGEST_BYTES
        kernels/jit/kernel_code.py FORMAT
        kernels/jit/numpy_inner_loops.py _FAST_CALL
        kernels/jit/object_format.py _RELOCATABLE _PROCESSORS _NULL _SYMBOLS _STRINGS _RELOCATIONS
        kernels/jit/object_format.py _MOST_ALIGNMENT
        kernels/jit/object_format.py _NO_BITS _SHORT_RELOCATIONS _UNDEFINED _ABSOLUTE _COMMON _WEAK
        kernels/jit/python_entry.py ALIGNED
        kernels/jit/half_vectors.py I16 HALF _EVEN
        kernels/jit/simd.py BYTES _MASKED_WIDTH
        kernels/jit/without_llvm/object_memory.py _WRITABLE _IN_MEMORY _RUN _OF_THREADS
        kernels/jit/without_llvm/object_memory.py _READ _WRITE _EXECUTE
        kernels/matmul/half_product_compiled.py _NEGATIVE _MINUS_INF
        kernels/matmul/half_tiles.py TILE_ROWS
        kernels/threads/malloc.py _TRIM_THRESHOLD
    """,
}
"""The same of what nobody decides between: coefficients, bits, and names that others gave."""

OF_A_GPU = re.compile(r"(_cuda|_gpu)\.py$|_room\.py$|/(cuda|cudnn|gpu)/")
"""Files of numbers for GPUs, which no processor shows anything of; some of these are data."""


def kinds(package: pathlib.Path) -> dict[str, list[Number]]:
    """All numbers of `FOLDERS` by what is known of them; "unknown" for those that are nowhere."""
    known = {(row.file, row.name): f"varied, {_how(row)}" for row in ROWS}
    for name, text in VARIED_WITH.items():
        known |= dict.fromkeys(_places(text), f"varied with {name}")
    for reason, text in OF_NO_MACHINE.items():
        known |= dict.fromkeys(_places(text), f"of no machine: {reason}")
    for reason, text in DATA.items():
        known |= dict.fromkeys(_places(text), f"data: {reason}")
    found: dict[str, list[Number]] = {}
    for number in numbers(package, FOLDERS):
        says = [known[number.file, name] for name in number.names if (number.file, name) in known]
        if OF_A_GPU.search(number.file) and not (says and says[0].startswith("data")):
            says = ["of a GPU"]
        found.setdefault(says[0] if says else "unknown", []).append(number)
    return dict(sorted(found.items()))


def _how(row: Row) -> str:
    if row.calls[0] in FRESH:
        return "from nothing"
    return "on all cores" if row.together else "on one core"


def _places(text: str) -> list[tuple[str, str]]:
    """(file, name) of lines that name a file and some numbers in it."""
    lines = [row.split() for row in text.split("\n") if row.strip()]
    return [(file, name) for file, *names in lines for name in names]
