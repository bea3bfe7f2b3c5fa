"""Errors made with TensorFlow's arguments, and with a text alone."""

import pickle

import pytest

import trainkit as tk

CODES = {  # as TensorFlow 2.21 has them
    "OK": 0,
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}


def _class_of(code):
    return getattr(tk.errors, "".join(w.title() for w in code.split("_")) + "Error")


def test_codes_are_those_of_tensorflow():
    assert {name: getattr(tk.errors, name) for name in dir(tk.errors) if name.isupper()} == CODES


@pytest.mark.parametrize("code", [c for c in CODES if c != "OK"])
def test_each_code_has_a_class_with_the_arguments_of_tensorflow(code):
    kind = _class_of(code)
    for error in (kind(None, None, "bad"), kind(node_def=None, op=None, message="bad")):
        assert isinstance(error, tk.errors.OpError)
        assert str(error) == error.message == "bad"
        assert error.op is None
        assert error.node_def is None
        assert error.error_code == CODES[code]
        assert error.experimental_payloads == {}
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (str(again), again.error_code) == ("bad", CODES[code])


@pytest.mark.parametrize("code", [c for c in CODES if c != "OK"])
def test_a_text_alone_is_the_message(code):
    error = _class_of(code)("bad")
    assert (str(error), error.message, error.args) == ("bad", "bad", ("bad",))
    assert error.error_code == CODES[code]
    assert str(pickle.loads(pickle.dumps(error))) == "bad"


def test_the_operation_and_its_description_are_kept():
    error = tk.errors.AbortedError({"op": "Relu"}, "relu", "stopped", {"why": b"asked"})
    assert (error.node_def, error.op) == ({"op": "Relu"}, "relu")
    assert error.experimental_payloads == {"why": b"asked"}
    again = pickle.loads(pickle.dumps(error))
    assert (again.node_def, again.op, str(again)) == ({"op": "Relu"}, "relu", "stopped")
    assert again.experimental_payloads == {"why": b"asked"}


def test_op_error_takes_its_code():
    for error in (
        tk.errors.OpError(None, None, "bad", 99),
        tk.errors.OpError(None, None, "bad", error_code=99),
    ):
        assert (error.error_code, str(error)) == (99, "bad")
        assert pickle.loads(pickle.dumps(error)).error_code == 99


def test_a_class_of_ones_own_calls_the_constructor():
    class TooFewSamplesError(tk.errors.InvalidArgumentError):
        def __init__(self, count):
            super().__init__(None, None, f"only {count} samples")

    with pytest.raises(tk.errors.InvalidArgumentError, match="only 3 samples") as caught:
        raise TooFewSamplesError(3)
    assert caught.value.error_code == tk.errors.INVALID_ARGUMENT


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="NotFoundError has no message"):
        tk.errors.NotFoundError(None, "relu")
    with pytest.raises(TypeError, match="error_code of NotFoundError is 5, not 3"):
        tk.errors.NotFoundError(None, None, "bad", 3)


def test_own_errors_have_codes():
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        tk.constant([1, 2]) + tk.constant([1, 2, 3])
    assert caught.value.error_code == tk.errors.INVALID_ARGUMENT
    with pytest.raises(tk.errors.OutOfRangeError) as caught:
        iter(tk.data.Dataset.range(0)).get_next()
    assert caught.value.error_code == tk.errors.OUT_OF_RANGE
    assert caught.value.op is None


def test_conditions_on_symbols_raise_tensorflows_error():
    with pytest.raises(tk.errors.OperatorNotAllowedInGraphError):
        tk.function(lambda x: bool(x > 0), autograph=False)(tk.constant(1.0))
