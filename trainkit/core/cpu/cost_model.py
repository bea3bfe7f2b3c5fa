"""The cost model: what work takes on a usual processor. Thresholds follow from these numbers.

Two ways of computing may round differently, so what chooses between them is the same on every
machine: it asks for sizes and costs here, and never how large the caches at hand are. What changes
no bit may ask `processor.cache_bytes`, too.
"""

from __future__ import annotations

CACHE_LINE = 64
"""Bytes of a line of a cache."""
LINE_FLOATS = CACHE_LINE // 4
"""Numbers of float32 in a line, and in the widest vectors."""
PAGE = 4096
"""Bytes of a page of memory; what lies a multiple of it apart shares a set of the first cache."""

FIRST_CACHE = 32 << 10
SECOND_CACHE = 512 << 10
THIRD_CACHE = 8 << 20
"""Bytes of caches that most processors have at least. The first two are a core's own."""
FIRST_FLOATS, THIRD_FLOATS = FIRST_CACHE // 4, THIRD_CACHE // 4
"""Numbers of float32 that fill these."""
CACHED_BYTES = SECOND_CACHE // 2
"""What lies in the second cache of every processor, however small, beside other things."""
UNCACHED_BYTES = 2 * SECOND_CACHE
"""What the second cache of a core has no room for."""
CACHED_FLOATS, UNCACHED_FLOATS = CACHED_BYTES // 4, UNCACHED_BYTES // 4
"""The same in numbers of float32."""

PRODUCT_NANOSECONDS = 0.02
"""What compiled kernels take on one core for a multiplication and its addition."""
BYTE_NANOSECONDS = 0.03
"""What those that pass over arrays take for a byte that they read or write: 0.01 to 0.07."""
FUNCTION_NANOSECONDS = 5.0
"""What they take for a special function of a number."""
PART_NANOSECONDS = 20_000
"""Work that is worth the wait for a helper, which takes about as long to wake."""
SPINS = PART_NANOSECONDS // 10
"""How often somebody who waits looks before he sleeps: some ten microseconds, half as long."""
CALL_FLOATS = 1 << 12
"""Numbers that NumPy passes over once in the time that a kernel's call takes, a microsecond."""
COPIED_ROW, COPIED_COLUMN = 20, 8
"""As many products take as long as to lay a number of a row, or of a column, beside others."""

KEPT_BYTES = 1 << 28
"""What is kept unasked, of freed memory and of code on disk."""
MOST_BYTES = 1 << 31
"""What no single purpose takes more of than memory that was asked for."""
