"""A library with the name of NCCL that does nothing but refuse what would fail, or wait for ever.

CuPy's own binding calls it. Each call for a device counts as a call of a library.
Source: NVIDIA, "NCCL User Guide", "Group Calls", and `nccl.h` for signatures and error codes.
"""

import ctypes
import importlib
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.null_driver import building

OWN = """
#include <stdlib.h>
#include <stddef.h>
enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, MOST = 16 };
struct set { int count, calls[MOST], sent; };
struct ncclComm { struct set *set; int rank, device; };
int null_library_call(const char *name, long stream);
static int depth;
static struct set *used;

int ncclCommInitAll(struct ncclComm **made, int count, const int *devices) {
    struct set *set = calloc(1, sizeof *set);
    if (count < 1 || count > MOST) return INVALID_ARGUMENT;
    set->count = count;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++)
            if (devices[i] == devices[j]) return INVALID_USAGE;
        made[i] = calloc(1, sizeof **made);
        made[i]->set = set, made[i]->rank = i, made[i]->device = devices[i];
    }
    return SUCCESS;
}
int ncclGroupStart(void) { return depth++, SUCCESS; }
int ncclGroupEnd(void) {
    struct set *set = used;
    int status = SUCCESS;
    if (!depth) return INVALID_USAGE;
    if (--depth || !set) return SUCCESS;
    for (int i = 0; i < set->count; i++) {
        if (set->calls[i] != set->calls[0]) status = INVALID_USAGE;
    }
    if (set->sent) status = INVALID_USAGE;
    for (int i = 0; i < set->count; i++) set->calls[i] = 0;
    used = NULL, set->sent = 0;
    return status;
}
static int note(const char *name, struct ncclComm *comm, int ok, int collective, int sent,
                long stream) {
    if (!ok) return INVALID_ARGUMENT;
    if (!depth && comm->set->count > 1) return INVALID_USAGE;
    if (used && used != comm->set) return INVALID_USAGE;
    used = comm->set, used->calls[comm->rank] += collective, used->sent += sent;
    return null_library_call(name, stream);
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct ncclComm *comm,
                  long stream) {
    int ok = count && from && from == to && type <= 9 && op <= 4;
    return note("ncclAllReduce", comm, ok, 1, 0, stream);
}
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
               struct ncclComm *comm, long stream) {
    int ok = count && from && (to || comm->rank != root) && type <= 9 && op <= 4 &&
             root < comm->set->count;
    return note("ncclReduce", comm, ok, 1, 0, stream);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                  struct ncclComm *comm, long stream) {
    int ok = count && to && (from || comm->rank != root) && type <= 9 && root < comm->set->count;
    return note("ncclBroadcast", comm, ok, 1, 0, stream);
}
int ncclSend(const void *from, size_t count, int type, int peer, struct ncclComm *comm,
             long stream) {
    int ok = count && from && type <= 9 && peer < comm->set->count && peer != comm->rank;
    return note("ncclSend", comm, ok, 0, 1, stream);
}
int ncclRecv(void *to, size_t count, int type, int peer, struct ncclComm *comm, long stream) {
    int ok = count && to && type <= 9 && peer < comm->set->count && peer != comm->rank;
    return note("ncclRecv", comm, ok, 0, -1, stream);
}
int ncclGetVersion(int *version) { return *version = 22803, SUCCESS; }
int ncclCommDestroy(struct ncclComm *comm) { return SUCCESS; }
int ncclCommAbort(struct ncclComm *comm) { return SUCCESS; }
const char *ncclGetErrorString(int status) { return "said by the NCCL that does nothing"; }
"""


@cache
def install():
    """CuPy's module for NCCL, over the library."""
    driver = building.shared_library("libcuda.so.1", building.driver_text())
    others = [name for name in _wanted() if f"{name}(" not in OWN]
    text = OWN + "\n".join(f"int {name}(void) {{ return INVALID_USAGE; }}" for name in others)
    ctypes.CDLL(str(building.shared_library("libnccl.so.2", text, [driver])), ctypes.RTLD_GLOBAL)
    return importlib.import_module("cupy.cuda.nccl")


def _wanted():
    """The functions that CuPy's module asks for."""
    path = Path(find_spec("cupy_backends").submodule_search_locations[0], "cuda", "libs")
    (path,) = path.glob("nccl.*.so")
    command = ["nm", "-D", "--undefined-only", path]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r" U (nccl\w+)", said)))
