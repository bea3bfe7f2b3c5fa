"""Arrays of GPUs are added up by NCCL: its calls, on stand-ins for CuPy and for NCCL."""

import sys

import pytest

import trainkit as tk
from tests import stand_in
from tests.distribution.processes import needs_mpi, run_processes
from trainkit.core import devices

FAKE = """
import ctypes, types
from mpi4py import MPI
from tests import stand_in

CALLS = []
NUMPY = {"NCCL_FLOAT32": "float32", "NCCL_INT64": "int64", "NCCL_INT32": "int32"}


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):
        assert (ndev, rank) == (size, strategy.rank) and commId == (7, 8)
        self.comm = MPI.COMM_WORLD.Dup()

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        assert sendbuf == recvbuf
        dtype = np.dtype(NUMPY[datatype])
        place = (ctypes.c_char * (count * dtype.itemsize)).from_address(recvbuf)
        array = np.frombuffer(place, dtype)
        self.comm.Allreduce(MPI.IN_PLACE, array, {"NCCL_SUM": MPI.SUM, "NCCL_MAX": MPI.MAX}[op])
        CALLS.append((datatype, op, count))


def install():
    import cupy
    names = [*NUMPY, "NCCL_SUM", "NCCL_MAX", "NCCL_MIN"]
    module = types.ModuleType("cupy.cuda.nccl")
    vars(module).update({n: n for n in names}, NcclCommunicator=NcclCommunicator,
                        get_unique_id=lambda: (7, 8))
    sys.modules["cupy.cuda.nccl"] = module
    cupy.cuda.runtime.deviceGetPCIBusId = staticmethod(lambda device: BUS)
    strategy.group.look_for_nccl()
"""

STEP = """
BUS = f"0000:0{rank}:00.0"
with stand_in.in_place() as ledger:
    install()
    assert strategy.group.takes_device_arrays
    with strategy.scope():
        dense = tk.keras.layers.Dense(2, kernel_initializer="ones")
        optimizer = tk.keras.optimizers.SGD(0.5)
    x = tk.ones((2, 3)) * (rank + 1.0)
    dense(x)

    def step(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(dense(x))
        gradients = tape.gradient(loss, dense.trainable_variables)
        optimizer.apply_gradients(zip(gradients, dense.trainable_variables))
        return loss

    strategy.run(step, (x,))
    strategy.run(tk.function(step), (x,))
    assert len(CALLS) >= 2 and {call[:2] for call in CALLS} == {("NCCL_FLOAT32", "NCCL_SUM")}
    # a gradient of 2 a row from rank 0 and of 4 from rank 1, half of it in each of two steps
    assert dense.kernel.numpy().tolist() == [[-5.0, -5.0]] * 3
    assert dense.kernel.value().device.endswith("GPU:0")
    total = strategy.reduce("SUM", tk.constant([rank + 1]))
    assert total.numpy().tolist() == [3]
"""


@needs_mpi
def test_gradients_of_gpus_go_through_nccl():
    run_processes(2, FAKE + STEP)


@needs_mpi
def test_two_processes_of_one_gpu_are_refused():
    done = run_processes(
        2,
        FAKE
        + """
BUS = "0000:01:00.0"
with stand_in.in_place():
    install()
    try:
        strategy.reduce("SUM", tk.ones(2))
    except tk.errors.UnavailableError as error:
        print(error)
""",
    )
    assert "NCCL takes a GPU for each process, and GPU 0000:01:00.0 of" in done.stdout


def test_nccl_without_gpus_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "gpu_count", lambda: 0)  # as where this process has none
    with pytest.raises(ValueError, match="implementation='NCCL' adds up on GPUs, and this process"):
        tk.distribute.CommunicationOptions(implementation="NCCL")


def test_nccl_that_cupy_does_not_find_is_refused(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy.cuda.nccl", raising=False)
    with stand_in.in_place(), pytest.raises(ValueError, match="CuPy finds no NCCL"):
        tk.distribute.CommunicationOptions(implementation="NCCL")


def test_another_implementation_is_refused():
    with pytest.raises(ValueError, match="implementation must be 'AUTO'"):
        tk.distribute.CommunicationOptions(implementation="RING")
