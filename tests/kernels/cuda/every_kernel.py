"""Every kernel that stands in a file of its own, and what the functions that make them take."""

import importlib
import inspect
import itertools
import pkgutil

from trainkit import kernels
from trainkit.graph.gpu import host_numbers
from trainkit.kernels.concat import concat_cuda
from trainkit.kernels.convolution import windows_cuda
from trainkit.kernels.cuda.element_types import BY_DTYPE, TypedKernel
from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.indexing import bins_cuda, rows_cuda
from trainkit.kernels.random import dropped_cuda, philox_cuda, rejection_cuda, truncated_cuda
from trainkit.kernels.reductions import finite_cuda
from trainkit.kernels.sorting import merge_sort_cuda

FAMILIES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}.")
    if module.name.endswith("_cuda")
] + [host_numbers]
FLOATS = ("float16", "bfloat16", "float32", "float64")
WIDTHS = (1, 2, 4, 8)
INDEX = sorted(rows_cuda.INTEGERS)
BINNED = [d for d in rows_cuda.SUMMED if d in rows_cuda.INTEGERS]
GIVEN = {
    bins_cuda.counted_bins: (BINNED, (False, True)),
    concat_cuda._kernel: (concat_cuda._UNITS,),
    dropped_cuda.dropped: (FLOATS,),
    finite_cuda._kernel: (finite_cuda._FORMS,),
    merge_sort_cuda.sorted_tiles: (sorted(merge_sort_cuda.DTYPES), (64, 2048)),
    merge_sort_cuda.merged_runs: ((4, 8),),
    merge_sort_cuda.picked_in_rows: (WIDTHS,),
    philox_cuda.words: (),
    philox_cuda.seeded: (),
    philox_cuda.uniform: (FLOATS,),
    philox_cuda.normal: (FLOATS,),
    philox_cuda.mask: (WIDTHS,),
    philox_cuda.integers: (WIDTHS,),
    philox_cuda.integers_between: (WIDTHS,),
    rejection_cuda.inverted: (("poisson", "binomial"),),
    rejection_cuda.tried: (rejection_cuda.DISTRIBUTIONS,),
    rejection_cuda.tried_until_taken: (rejection_cuda.DISTRIBUTIONS,),
    rejection_cuda.boosted_gamma: (),
    rows_cuda.picked_rows: (sorted(rows_cuda.WORDS), ("uint8", "int64")),
    rows_cuda.flat_positions: (INDEX,),
    rows_cuda.of_few: (rows_cuda.STEPS, sorted(rows_cuda.SUMMED), ("int32",)),
    rows_cuda.of_runs: (rows_cuda.STEPS, sorted(rows_cuda.SUMMED)),
    rows_cuda.sums_in_any_order: (sorted(rows_cuda.ATOMIC), ("int64",)),
    truncated_cuda.outside_count: (("float32", "float64"),),
    truncated_cuda.outside_list: (("float32", "float64"),),
    truncated_cuda.redrawn: (("float32", "float64"),),
    truncated_cuda.summed_counts: (),
    windows_cuda._columns_kernel: (windows_cuda._UNITS, ("int", "long long")),
}
"""What each function that makes a kernel is called with here, by argument."""


def factories(module):
    """The functions of a module that keep the kernels they make."""
    return [
        f
        for f in vars(module).values()
        if hasattr(f, "cache_info")
        and f.__module__ == module.__name__
        and inspect.signature(f).return_annotation == "RawKernel"
    ]


def raw_kernels(module):
    """The kernels of a module that are for elements of one type each."""
    found = [k for k in vars(module).values() if isinstance(k, RawKernel)]
    for make in factories(module):
        found += [make(*given) for given in itertools.product(*GIVEN[make])]
    return found


def texts(module):
    """All kernels of a module: name, text, and options for the compiler."""
    made = [(k.name, k.text, k.options) for k in raw_kernels(module)]
    for kernel in vars(module).values():
        if isinstance(kernel, TypedKernel):
            options = kernel.of(next(iter(BY_DTYPE))).options
            made += [(kernel.name, kernel.source(dtype), options) for dtype in BY_DTYPE]
    return made
