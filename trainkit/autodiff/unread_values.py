"""Values that no gradient rule reads go while the tape still records.

A tape holds all tensors of a forward pass: by them it knows which result went where. Of some only
that is of use. The gradient of a rectifier reads what the rectifier gave, that of a normalization
what it got, and that of a sum nothing at all, so what lies between the three is never read. In a
ResNet-50 that is 0.5 GB of 1.2.

So a large tensor of which rules read the shape at most, and which nobody holds but the tape, gets
an array of the same shape and dtype without memory of its own in place of its array. Who holds it
is asked by counts of references, as in `ownership`: where these can't be trusted nothing is freed.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from trainkit.core.dispatch.eager import activation_of
from trainkit.core.dispatch.facets import RESULT
from trainkit.core.dispatch.ownership import count_other_holders
from trainkit.core.process.garbage import LARGE_BYTES
from trainkit.core.tensor import Tensor


class _Candidate:
    """A tensor whose value no rule reads as far as the record goes, or what an activation gave.

    Attributes:
        tensor: the result of an operation.
        uses: the entry of the record for each time that an operation took it.
        references: those of the record, and of the list of its keys.
    """

    __slots__ = ("is_one_of_many", "tensor", "uses")

    def __init__(self, tensor: Tensor, is_one_of_many: bool) -> None:
        self.tensor, self.is_one_of_many = tensor, is_one_of_many
        # an entry that is replaced in the record goes on holding its tensors here, and is counted
        self.uses: list[Any] = []

    @property
    def references(self) -> int:
        # The record holds it as a key and in each entry that took it, the list of keys once more.
        # Several results are keys each, and their tuple, which holds them, is one too.
        return 2 + self.is_one_of_many + len(self.uses)


class UnreadValues:
    """The tensors of one record whose values no rule reads.

    Args:
        least_bytes: smaller arrays are passed over.
    """

    def __init__(self, least_bytes: int = LARGE_BYTES) -> None:
        self._least_bytes = least_bytes
        self._candidates: dict[int, _Candidate] = {}  # by the id of the tensor
        self._activated: dict[int, _Candidate] = {}  # what refers to its logits, in the same way
        self._keys: list[Any] = []  # those of the record that have been looked at, in order

    def look_at(self, tracked: dict[Any, Any]) -> list[Tensor]:
        """Take up what was recorded since the last call; all tensors that no rule reads so far.

        Args:
            tracked: the record, as `trace_state.TapeLike` says.
        """
        last, new_keys = self._keys[-1] if self._keys else None, []
        for key in reversed(tracked):
            if key is last:
                break
            new_keys.append(key)
        for key in reversed(new_keys):
            self._keys.append(key)
            entry = tracked[key]
            if entry is not None:
                self._note(key, entry)
        return [candidate.tensor for candidate in self._candidates.values()]

    def free(self, tracked: dict[Any, Any]) -> None:
        """Free the values among them that nobody holds but the record."""
        self.look_at(tracked)
        # No loss can be asked for of what nobody holds, so its logits are of no more use.
        for identity, candidate in list(self._activated.items()):
            if _is_held_by_record_alone(candidate):
                del candidate.tensor._activation
                del self._activated[identity]
        for identity, candidate in list(self._candidates.items()):
            if _is_held_by_record_alone(candidate):
                candidate.tensor._array = _without_memory(candidate.tensor._array)
                del self._candidates[identity]

    def _note(self, key: Any, entry: Any) -> None:
        # what a user's `custom_gradient` records has no facets
        residuals = getattr(getattr(entry[0], "facets", None), "residuals", None)
        for position, x in enumerate(entry[2:]):
            if id(x) in self._activated:
                self._activated[id(x)].uses.append(entry)
            candidate = self._candidates.get(id(x))
            if candidate is None:
                continue
            if residuals is None or position in residuals:
                del self._candidates[id(x)]
            else:
                candidate.uses.append(entry)
        if type(key) is Tensor and activation_of(key) is not None:
            if key.nbytes >= self._least_bytes:
                self._activated[id(key)] = _Candidate(key, False)
            return  # its gradient is that of the result
        if residuals is None or RESULT in residuals:
            return
        for y in key if type(key) is tuple else (key,):
            if type(y) is Tensor and type(array := y._array) is np.ndarray:
                if array.nbytes >= self._least_bytes:
                    self._candidates[id(y)] = _Candidate(y, type(key) is tuple)


def _is_held_by_record_alone(candidate: _Candidate) -> bool:
    if count_other_holders(candidate) != candidate.references:
        return False
    return weakref.getweakrefcount(candidate.tensor) == 0


def _without_memory(array: Any) -> Any:
    """An array of the same shape and dtype, of which all elements lie at one place.

    They are not numbers where the dtype has such: a rule that read them would be seen to be wrong.
    """
    value = np.full((), np.nan if array.dtype.kind in "fc" else 0, array.dtype)
    return np.ndarray(array.shape, array.dtype, value, 0, (0,) * array.ndim)
