"""Reading the formula of `einsum`: letters for each axis, ellipses resolved, mistakes named."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

Dims = tuple[int | None, ...]


@lru_cache(maxsize=1024)
def parsed(subscripts: str, dims: tuple[Dims, ...]) -> tuple[list[list[str]], str]:
    """The letters of each operand's axes and of the result's.

    Returns:
        For each operand a list with a letter for each axis, `""` for an axis of size 1 that
        broadcasts; and the letters of the result.

    Raises:
        InvalidArgumentError: the formula is malformed or names another number of operands.
        ShapeError: an operand has another number of axes, or sizes differ.
    """
    text = subscripts.replace(" ", "")
    inputs, arrow, out = text.partition("->")
    terms = inputs.split(",")
    _check(text, terms, out, len(dims))
    free = [s for s in _LETTERS if s not in text]
    hidden = [_hidden_rank(term, d, subscripts) for term, d in zip(terms, dims, strict=True)]
    rank = max((n for n in hidden if n is not None), default=0)
    spread = free[:rank]
    names = [_expand(t, spread, n) for t, n in zip(terms, hidden, strict=True)]
    if arrow:
        result = out.replace("...", "".join(spread))
    else:
        result = "".join(spread) + "".join(
            sorted(s for s in set(inputs) - {",", "."} if inputs.count(s) == 1)
        )
    _check_result(result, names, spread, subscripts)
    _check_sizes(names, dims, spread, subscripts)
    _drop_ones(names, dims, spread)
    return names, result


def _check(text: str, terms: list[str], out: str, count: int) -> None:
    if len(terms) != count:
        raise InvalidArgumentError(
            f"einsum: {text!r} names {len(terms)} operands, {count} were given"
        )
    for term in [*terms, out]:
        letters = term.replace("...", "", 1)
        wrong = [s for s in letters if s not in _LETTERS]
        if wrong:
            raise InvalidArgumentError(
                f"einsum: {text!r} has {wrong[0]!r}; use letters, commas, one '...' an operand, "
                "and '->'"
            )
    if len(set(out)) != len(out.replace("...", ".")) and "..." not in out:
        raise InvalidArgumentError(f"einsum: {text!r}: a letter stands twice in the result")


def _hidden_rank(term: str, dims: Dims, subscripts: str) -> int | None:
    """How many axes the ellipsis of a term stands for, `None` without one."""
    letters = len(term.replace("...", ""))
    if "..." not in term:
        if letters != len(dims):
            raise ShapeError(
                f"einsum: {subscripts!r}: {term!r} names {letters} axes, the operand has shape "
                f"{dims}"
            )
        return None
    if len(dims) < letters:
        raise ShapeError(
            f"einsum: {subscripts!r}: {term!r} names {letters} axes at least, the operand has "
            f"shape {dims}"
        )
    return len(dims) - letters


def _expand(term: str, spread: list[str], count: int | None) -> list[str]:
    if count is None:
        return list(term)
    before, after = term.split("...")
    return [*before, *spread[len(spread) - count :], *after]


def _check_result(result: str, names: list[list[str]], spread: list[str], subscripts: str) -> None:
    operand_letters = {s for term in names for s in term}
    for s in result:
        if s not in operand_letters:
            raise InvalidArgumentError(
                f"einsum: {subscripts!r}: {s!r} of the result is in no operand"
            )
    if len(set(result)) != len(result):
        raise InvalidArgumentError(f"einsum: {subscripts!r}: a letter stands twice in the result")
    if any(s not in result for s in spread):
        raise InvalidArgumentError(
            f"einsum: {subscripts!r}: an operand has '...', the result must have it too"
        )


def _check_sizes(
    names: list[list[str]], dims: tuple[Dims, ...], spread: Any, subscripts: str
) -> None:
    sizes: dict[str, int] = {}
    for term, shape in zip(names, dims, strict=True):
        for s, n in zip(term, shape, strict=True):
            if n is None or (s in spread and n == 1):
                continue
            if sizes.setdefault(s, n) != n:
                listed = "\n".join(f"  operand {i}  {d}" for i, d in enumerate(dims))
                label = "the axes of '...'" if s in spread else repr(s)
                raise ShapeError(
                    f"einsum: {subscripts!r}: the sizes of {label} differ, {sizes[s]} and "
                    f"{n}\n{listed}"
                )


def _drop_ones(names: list[list[str]], dims: tuple[Dims, ...], spread: list[str]) -> None:
    """Empty the letters of hidden axes of size 1 that another operand stretches."""
    for s in spread:
        occurrences = [
            (k, i, dims[k][i]) for k, term in enumerate(names) for i, t in enumerate(term) if t == s
        ]
        if any(n != 1 for _, _, n in occurrences):
            for k, i, n in occurrences:
                if n == 1:
                    names[k][i] = ""
