"""`tk.test.TestCase`: unit tests whose assertions take tensors, variables and nests of them."""

# ruff: noqa: PT009  (the assertions of unittest are what these are made of)

from __future__ import annotations

import contextlib
import random
import re
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.core import devices, dtypes, nest, rng
from trainkit.core.errors import OpError
from trainkit.core.tensor import is_tensor

_SEED = 87654321
_TOLERANCES = {"float16": 1e-3, "bfloat16": 1e-2}


def _array(x: Any) -> Any:
    return np.asarray(x.numpy() if is_tensor(x) else x)


def _is_nest(x: Any) -> bool:
    return isinstance(x, dict) or nest.fields_of(x) is not None


class TestCase(unittest.TestCase):
    """A test case with TensorFlow's assertions; each test begins with the same seeds.

    Everything runs at once, so `evaluate` gives values, and a session does nothing.

    Example:
        >>> case = tk.test.TestCase()
        >>> case.assertAllClose(tk.constant([1.0, 2.0]), [1.0, 2.0 + 1e-7])
        >>> case.assertAllEqual({"a": tk.constant([1, 2])}["a"], [1, 2])
    """

    __test__ = False  # pytest is to collect classes of the user's, which `__init_subclass__` marks

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__test__ = cls.__dict__.get("__test__", True)

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def setUp(self) -> None:
        """Set the seeds of Python, NumPy and trainkit."""
        super().setUp()
        random.seed(_SEED)
        np.random.seed(_SEED)
        rng.set_seed(_SEED)

    def get_temp_dir(self) -> str:
        """A folder of this test, which is gone after it."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
            self.addCleanup(self._folder.cleanup)
        return self._folder.name

    # ------------------------------------------------------------------ values

    def evaluate(self, tensors: Any) -> Any:
        """The values of a tensor, or of a nest of them, as NumPy arrays."""
        return nest.map_structure(lambda x: x.numpy() if is_tensor(x) else x, tensors)

    @contextlib.contextmanager
    def session(self, graph: Any = None, config: Any = None, use_gpu: bool = True) -> Iterator[Any]:
        """A context for tests written for sessions; `evaluate` gives values inside and outside.

        Raises:
            ValueError: a graph or a configuration is given: there are none.
        """
        if graph is not None or config is not None:
            raise ValueError("TestCase.session: graph and config must be None, there are none here")
        with contextlib.nullcontext() if use_gpu else devices.device("/cpu:0"):
            yield self

    cached_session = session

    # ------------------------------------------------------------------ close and equal

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Elements differ by at most `atol + rtol * |b|`, shapes do not; nests item by item."""
        if _is_nest(a) or _is_nest(b):
            self.assertEqual(_is_nest(a), _is_nest(b), self._formatMessage(msg, "not two nests"))
            a, b = (x if isinstance(x, dict) else vars_of(x) for x in (a, b))
            self.assertCountEqual(a, b, msg)
            for name in a:
                self.assertAllClose(a[name], b[name], rtol, atol, f"{msg or ''} at {name!r}")
            return
        if (_is_list_of_values(a) or _is_list_of_values(b)) and not (is_tensor(a) or is_tensor(b)):
            self.assertEqual(len(a), len(b), msg)
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self.assertAllClose(x, y, rtol, atol, f"{msg or ''} at {i}")
            return
        # Values first, as their text shows where they differ; NumPy broadcasts, hence shapes behind
        # it.
        np.testing.assert_allclose(
            _widen(_array(a)), _widen(_array(b)), rtol, atol, err_msg=msg or "", strict=False
        )
        self._check_shapes(a, b, msg)

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Some element, or the shape, is not close."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(self._formatMessage(msg, "the two values are close at all elements"))

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """`assertAllClose` with the tolerances of the coarser of both dtypes."""
        names = {str(_array(x).dtype) for x in (a, b)}
        if "float32" in names:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if "float16" in names:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        if "bfloat16" in names:
            rtol, atol = max(rtol, bfloat16_rtol), max(atol, bfloat16_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Shapes and elements are equal; NaN equals NaN."""
        self._check_shapes(a, b, msg)
        np.testing.assert_array_equal(_array(a), _texts(_array(b)), err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Some element, or the shape, differs."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(self._formatMessage(msg, "the two values are equal at all elements"))

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Both have the same shape."""
        self._check_shapes(input_a, input_b, msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """The element type of `target` is `expected_dtype`."""
        dtype = target.dtype if is_tensor(target) else dtypes.as_dtype(_array(target).dtype)
        self.assertEqual(dtype, dtypes.as_dtype(expected_dtype))

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Both name the same device."""
        one, two = (devices.parse(str(name)) for name in (device1, device2))
        self.assertEqual(one, two, msg)

    def _check_shapes(self, a: Any, b: Any, msg: str | None) -> None:
        one, two = _array(a).shape, _array(b).shape
        self.assertEqual(one, two, self._formatMessage(msg, f"shapes differ: {one} and {two}"))

    # ------------------------------------------------------------------ bounds

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Each element is above `comparison_target`."""
        self._check_all(_array(a) > comparison_target, a, f"> {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """No element is below `comparison_target`."""
        self._check_all(_array(a) >= comparison_target, a, f">= {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Each element is below `comparison_target`."""
        self._check_all(_array(a) < comparison_target, a, f"< {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """No element is above `comparison_target`."""
        self._check_all(_array(a) <= comparison_target, a, f"<= {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Each element is between the bounds; an open bound is not in the range."""
        x = _array(target)
        above = x > lower_bound if open_lower_bound else x >= lower_bound
        below = x < upper_bound if open_upper_bound else x <= upper_bound
        # The brackets of the interval, as mathematics writes open and closed ends.
        ends = "(["[not open_lower_bound], ")]"[not open_upper_bound]
        self._check_all(above & below, x, f"in {ends[0]}{lower_bound}, {upper_bound}{ends[1]}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Each element is one of `expected_set`."""
        expected = set(expected_set)
        x = _array(target)
        inside = np.array([item in expected for item in x.ravel().tolist()], bool)
        self._check_all(inside.reshape(x.shape), x, f"in {sorted(expected, key=repr)}")

    def _check_all(self, holds: Any, x: Any, description: str) -> None:
        if not np.all(holds):
            wrong = _array(x)[~np.asarray(holds)].ravel()[:5].tolist()
            self.fail(f"not all elements are {description}: {wrong}")

    # ------------------------------------------------------------------ near

    def assertNear(self, f1: Any, f2: Any, err: float, msg: str | None = None) -> None:
        """Two numbers differ by at most `err`; NaN is near NaN."""
        one, two = float(_array(f1)), float(_array(f2))
        # Equality first: infinities are equal, and their difference is NaN.
        near = one == two or abs(one - two) <= err or (one != one and two != two)
        self.assertTrue(near, self._formatMessage(msg, f"{one} and {two} differ by over {err}"))

    def assertArrayNear(
        self, farray1: Any, farray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Two sequences of numbers, as long as one another, differ by at most `err` each."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, two in zip(farray1, farray2, strict=True):
            self.assertNear(one, two, err, msg)

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None
    ) -> None:
        """The length of the difference of two arrays of one shape is below `err`."""
        self._check_shapes(ndarray1, ndarray2, msg)
        distance = float(np.linalg.norm((_array(ndarray1) - _array(ndarray2)).ravel()))
        self.assertLess(distance, err, msg)

    # ------------------------------------------------------------------ errors

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: str | Callable[[Any], bool]
    ) -> Iterator[None]:
        """The block raises such an error, whose text a pattern or a function accepts."""
        try:
            yield
        except exception_type as error:
            accepts = expected_err_re_or_predicate
            ok = accepts(error) if callable(accepts) else re.search(accepts, str(error))
            self.assertTrue(ok, f"another error than expected: {type(error).__name__}: {error}")
            return
        name = getattr(exception_type, "__name__", exception_type)
        self.fail(f"{name} was not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """The block raises an error of an operation, whose text a pattern or function accepts."""
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    # ------------------------------------------------------------------ containers and texts

    def assertLen(self, container: Any, expected_len: int, msg: str | None = None) -> None:
        """The container has so many items."""
        self.assertEqual(len(container), expected_len, msg)

    def assertEmpty(self, container: Any, msg: str | None = None) -> None:
        """The container has no items."""
        self.assertEqual(len(container), 0, msg)

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:
        """The container has items."""
        self.assertNotEqual(len(container), 0, msg)

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:
        """The value is at least `minv` and at most `maxv`."""
        self.assertTrue(minv <= value <= maxv, msg or f"{value} is not in [{minv}, {maxv}]")

    def assertContainsSubset(
        self, expected_subset: Any, actual_set: Any, msg: str | None = None
    ) -> None:
        """All of `expected_subset` is in `actual_set`."""
        self.assertEqual(set(expected_subset) - set(actual_set), set(), msg)

    def assertSameElements(
        self, expected_seq: Any, actual_seq: Any, msg: str | None = None
    ) -> None:
        """Both have the same items, however often and in whatever order."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertItemsEqual(self, expected_seq: Any, actual_seq: Any, msg: str | None = None) -> None:
        """Both have the same items as often, in whatever order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """The text begins with `expected_start`."""
        self.assertTrue(
            actual.startswith(expected_start), msg or f"{actual!r} begins otherwise than expected"
        )

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        """The text ends with `expected_end`."""
        self.assertTrue(
            actual.endswith(expected_end), msg or f"{actual!r} ends otherwise than expected"
        )


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a named tuple or a data class, by name."""
    return {name: getattr(record, name) for name in nest.fields_of(record) or ()}


def _is_list_of_values(x: Any) -> bool:
    """Whether items of a list are compared one by one: lists may hold nests and other shapes."""
    return isinstance(x, list | tuple) and any(
        is_tensor(item)
        or _is_nest(item)
        or hasattr(item, "shape")
        or isinstance(item, list | tuple)
        for item in x
    )


def _widen(x: Any) -> Any:
    """Halves as float32, so that differences are exact enough to compare."""
    return x.astype(np.float32) if str(x.dtype) in _TOLERANCES else x


def _texts(x: Any) -> Any:
    """Texts as bytes, as tensors of text have them."""
    if x.dtype.kind != "U":
        return x
    return np.array([item.encode() for item in x.ravel().tolist()], object).reshape(x.shape)
