"""What compiles before anybody waits: `kernels` builds a library, `warm` fills a cache."""

import os
import shutil
import subprocess
import sys

import pytest

import trainkit as tk
from tests import stand_in
from trainkit.cli import kernels, main
from trainkit.core import devices
from trainkit.kernels.elementwise import parallel_ufuncs
from trainkit.kernels.jit import kernel_family, kernel_library, library_builder, target
from trainkit.kernels.threads import pool_code

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))) or not target.level(),
    reason="no C compiler, or no instruction set that libraries are built for",
)

USE = """
import sys
import numpy as np
from trainkit.kernels.softmax import softmax_tuned
from trainkit.kernels.threads.thread_pool import thread_pool
x = np.random.default_rng(0).standard_normal((600, 300)).astype("float32")
y = softmax_tuned.softmax(x, -1)
assert y is not None, "the plain version ran"
wanted = np.exp(x - x.max(-1, keepdims=True))
np.testing.assert_allclose(y, wanted / wanted.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)
print(sorted({"numba", "llvmlite"} & set(sys.modules)), thread_pool() is not None)
"""

BUILD = """
import pathlib, sys
from trainkit.kernels.jit.library_builder import build_library
some = [("softmax.softmax_compiled", "softmax", ())]
print(build_library(sys.argv[1], some, pathlib.Path(sys.argv[2]), lambda text: None))
"""

POINT = """
import pathlib, sys
from trainkit.kernels.jit import kernel_library
kernel_library.FOLDER = pathlib.Path(sys.argv[1])
"""


def outcome(*command, **variables):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, **variables, "TRAINKIT_JIT": variables.get("mode", "1")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_compiler
@pytest.mark.parametrize("level", [name for name in target.LEVELS if name != "aarch64"])
def test_a_library_serves_the_first_call_without_a_compiler(level, tmp_path):
    if not target.LEVELS[level] <= target.features():
        pytest.skip(f"this processor has no {level}")
    as_level = library_builder.environment(level)
    cache = {"TRAINKIT_CACHE": str(tmp_path / "cache")}
    made = outcome("-c", BUILD, level, tmp_path, **{**as_level, **cache})
    assert made.endswith(f"kernels-{level}.so")
    use = {**as_level, "TRAINKIT_KERNELS": "1", "TRAINKIT_CACHE": str(tmp_path / "empty")}
    said = outcome("-c", POINT + USE, tmp_path, **use)
    assert said.startswith("[] ")
    assert not (tmp_path / "empty").exists()


@needs_compiler
def test_a_library_of_other_text_is_left_alone(tmp_path):
    level = target.level()
    cache = {"TRAINKIT_CACHE": str(tmp_path / "cache"), "TRAINKIT_KERNELS": "1"}
    outcome("-c", BUILD, level, tmp_path, **{**library_builder.environment(level), **cache})
    other = POINT + "from trainkit.kernels.jit import kernel_code\nkernel_code.FORMAT = 'other'\n"
    said = outcome("-c", other + USE, tmp_path, **cache, mode="eager")
    assert said.startswith("['llvmlite', 'numba'] ")


CROSS = """
import ctypes, pathlib, sys
from trainkit.kernels.jit.library_builder import build_library
some = [("softmax.softmax_compiled", "softmax", ()), ("matmul.product_compiled", "product", ())]
print(build_library("aarch64", some, pathlib.Path(sys.argv[1]), lambda text: None))
"""
ARM_OF_ELF = 183


@pytest.mark.slow
def test_a_library_for_arm_is_for_arm_wherever_it_is_built(tmp_path):
    """What x86 alone has is not in it, as the count of references that LLVM writes for that."""
    try:
        command = library_builder.linker_command("aarch64")
    except library_builder.NoLinker:
        pytest.skip("no C compiler for ARM")
    as_arm = library_builder.environment("aarch64")
    made = outcome("-c", CROSS, tmp_path, **{**as_arm, "TRAINKIT_CACHE": str(tmp_path / "cache")})
    with open(made, "rb") as file:
        head = file.read(20)
    assert int.from_bytes(head[18:20], "little") == ARM_OF_ELF, command


def test_the_pool_of_a_library_is_that_of_its_processor():
    assert "aarch64.hint" in pool_code.library_text("aarch64")
    assert "x86.sse2.pause" in pool_code.library_text("x86_64")
    of_arm = pool_code.library_prefix(pool_code.pool_text("aarch64"))
    assert f"@{of_arm}run" in parallel_ufuncs.library_ufuncs("aarch64")
    assert f"@{of_arm}run" in pool_code.library_text("aarch64")


def test_another_machine_s_kernels_are_refused_where_they_can_not_be_built(monkeypatch, capsys):
    monkeypatch.setattr(library_builder.platform, "machine", lambda: "aarch64")
    assert main.main(["kernels", "--levels", "x86-64-v3"]) == 1
    assert "can be built for aarch64, not for x86-64-v3" in capsys.readouterr().err


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # which can't be imported then
from trainkit.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("missing", ["numba", "numba,llvmlite"])
@pytest.mark.parametrize("command", ["kernels --only", "warm"])
def test_without_a_compiler_it_is_named(command, missing, tmp_path):
    words = [*command.split(), *([target.level() or "aarch64"] if "--" in command else [])]
    variables = {"TRAINKIT_CACHE": str(tmp_path), "TRAINKIT_KERNELS": "0"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    name = words[0]
    assert done.stderr.startswith(f"trainkit {name}: ")
    assert "is not installed, and kernels are compiled by it; pip install 'numba>=0.61'" in (
        done.stderr
    )


def test_what_is_for_x86_alone_is_named():
    object_code = pytest.importorskip("trainkit.kernels.jit.object_code", exc_type=ImportError)
    text = "declare i8 @llvm.x86.sse2.other(ptr)"
    with pytest.raises(NotImplementedError, match=r"llvm\.x86\.sse2\.other is for x86 alone"):
        object_code._for_another(text)


def test_a_file_that_is_no_library_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_library, "FOLDER", tmp_path)
    monkeypatch.delenv("TRAINKIT_KERNELS", raising=False)
    (tmp_path / f"kernels-{target.level()}.so").write_bytes(b"not a library")
    assert kernel_library.kernel_library.__wrapped__() is None


def test_a_variable_leaves_the_library_alone(monkeypatch):
    monkeypatch.setenv("TRAINKIT_KERNELS", "0")
    assert kernel_library.kernel_library.__wrapped__() is None


def test_an_unknown_level_is_named(capsys):
    assert main.main(["kernels", "--levels", "x86-64-v9"]) == 1
    assert "not for x86-64-v9" in capsys.readouterr().err


def test_without_a_c_compiler_object_code_is_kept(monkeypatch, capsys, tmp_path):
    some = [("coding.png_rows_compiled", "png_rows", ())]
    monkeypatch.setattr(kernels, "usual_kernels", lambda: iter(some))
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    level = target.level()
    assert main.main(["kernels", "--only", level, "--output", str(tmp_path / "made")]) == 0
    assert "no C compiler" in capsys.readouterr().err
    folder, file = (tmp_path / "made").rglob("*")
    assert (folder.name, file.suffix) == (f"kernels-{level}", ".o")


SOME = [
    ("softmax.softmax_compiled", "softmax", ()),
    ("coding.png_rows_compiled", "png_rows", ()),
    ("elementwise.elementwise_compiled", "clip", ()),
    ("elementwise.elementwise_compiled", "relu", ()),
]


@pytest.fixture
def building(monkeypatch, tmp_path):
    """`kernels` builds four kernels, and nothing is on disk."""
    pytest.importorskip("numba")
    monkeypatch.setattr(kernels, "usual_kernels", lambda: iter(SOME))
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return ["kernels", "--only", target.level(), "--output", str(tmp_path / "made")]


def said_of(text):
    """The kernels that were compiled, in alphabetical order."""
    return sorted(line for line in text.splitlines() if line.endswith("()"))


EACH = ["clip()", "png_rows()", "relu()", "softmax()"]


@needs_compiler
@pytest.mark.parametrize("part", [library_builder._PART, "import sys; sys.exit('it fails')"])
def test_every_core_compiles_and_each_kernel_once(part, building, monkeypatch, capfd, tmp_path):
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, command, **options):
            started.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(library_builder, "usable_cores", lambda: 2)
    monkeypatch.setattr(library_builder, "_FEWEST", 2)
    monkeypatch.setattr(library_builder, "_PART", part)
    monkeypatch.setattr(library_builder.subprocess, "Popen", Noted)
    assert main.main(building) == 0
    assert said_of(capfd.readouterr().out) == EACH
    (text,) = (command[2] for command in started if command[1] == "-c")
    assert text.endswith(part)
    assert (tmp_path / "made" / f"kernels-{target.level()}.so").exists()
    started.clear()
    assert main.main(building) == 0  # all is on disk
    assert said_of(capfd.readouterr().out) == []
    assert [command for command in started if command[1] == "-c"] == []


@needs_compiler
def test_a_process_leaves_what_another_has_taken(building, capfd, tmp_path):
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "1").touch()
    task = claims / "task"
    task.write_text(repr((target.level(), SOME, str(claims), False)))
    library_builder.compile_part(str(task))
    assert said_of(capfd.readouterr().out) == ["clip()", "relu()", "softmax()"]


@pytest.mark.parametrize("compiler", [f"{sys.executable} -c 1/0", "no-such-compiler"])
def test_a_compiler_that_can_not_link_is_found_before_kernels_are_compiled(
    compiler, building, monkeypatch, capfd, tmp_path
):
    monkeypatch.setenv("CC", compiler)
    assert main.main(building) == 0
    said = capfd.readouterr()
    (line,) = [line for line in said.err.splitlines() if line.startswith("trainkit kernels: ")]
    assert "the C compiler" in line
    assert "so there is no library to load; LLVM loads each kernel" in line
    assert said_of(said.out) == EACH
    assert len(list((tmp_path / "made").rglob("*.o"))) == len(SOME)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {"momentum": 0.95, "nesterov": True}),
        ("Adam", {"beta_1": 0.5, "beta_2": 0.95, "epsilon": 1e-8, "amsgrad": True}),
        ("AdamW", {"weight_decay": 0.1, "beta_2": 0.98}),
        ("Adam", {"use_ema": True, "ema_momentum": 0.9}),
        ("SGD", {"momentum": 0.8, "use_ema": True, "weight_decay": 0.1}),
        ("RMSprop", {"rho": 0.99, "centered": True}),
        ("Lion", {"beta_1": 0.95}),
        ("Nadam", {"weight_decay": 0.5}),
        ("Adadelta", {"rho": 0.9}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_updates_of_optimizers_serve_all_settings(name, settings, dtype, on_cpu):
    optimizer = getattr(tk.keras.optimizers, name)(0.3, **settings)
    optimizer.apply_gradients([(tk.ones((5,), dtype), tk.Variable(tk.zeros((5,), dtype)))])
    (update,) = optimizer._programs.flat_updates()
    assert ("jit.llvm_text", "text_kernel", update.kernel_key) in set(kernels.usual_kernels())


def test_the_usual_kernels_are_those_of_all_families_and_of_the_usual_optimizers():
    usual = list(kernels.usual_kernels())
    families = {
        (family.file, family.builder)
        for family in kernel_family._State.families
        if family.name not in kernels._KEYS or [*kernels._KEYS[family.name]()]
    }  # pairs of bfloat16 are for long vectors alone
    ours = {pair for pair in families if not pair[0].startswith("convolution.conv_compiled")}
    named = {(module, builder) for module, builder, _ in usual}
    assert {pair for pair in ours if pair[1] != "build"} <= named | {("convolution", "")}
    assert len(set(usual)) == len(usual)
    assert ("convolution.conv_compiled", "pixels", (2, 0)) in usual


def test_a_gpu_takes_no_kernel_away():
    on_cpu = list(kernels.usual_kernels())
    assert "jit.llvm_text" in {module for module, _, _ in on_cpu}
    with stand_in.in_place():
        assert list(kernels.usual_kernels()) == on_cpu


SCRIPT = """
import sys
import numpy as np
import trainkit as tk

@tk.function
def step(x):
    return tk.nn.softmax(x * 2.0 + 1.0)

print(sys.argv[1:], step(tk.constant(np.ones((300, 300), "float32"))).shape)
sys.exit(3)
"""


def test_a_program_is_run_with_all_that_it_uses_compiled(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    cache = {"TRAINKIT_CACHE": str(tmp_path / "cache"), "TRAINKIT_KERNELS": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "trainkit", "warm", str(tmp_path / "program.py"), "--epochs", "1"],
        env={**os.environ, "TRAINKIT_JIT": "1", **cache},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 3
    first, last = done.stdout.strip().splitlines()
    assert first == "['--epochs', '1'] (300, 300)"
    assert "were added to" in last
    assert not last.startswith("0 ")
    assert "numba" not in outcome("-c", USE, **cache)


@pytest.mark.parametrize("gpus", [0, 1])
def test_warm_counts_what_cupy_has_kept(gpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(devices, "gpu_count", lambda: gpus)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib\n"
        "(pathlib.Path(os.environ['CUPY_CACHE_DIR']) / 'new.cubin').write_bytes(b'')\n"
    )
    (tmp_path / "old.cubin").write_bytes(b"")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    assert main.main(["warm", str(program)]) == 0
    assert f"1 kernel of the GPU were added to {tmp_path}" in capsys.readouterr().out
    program.write_text("")
    assert main.main(["warm", str(program)]) == 0
    assert ("0 kernels of the GPU were" in capsys.readouterr().out) == (gpus == 1)


def test_warm_begins_nothing_that_can_not_be_kept(tmp_path, monkeypatch, capsys):
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRAINKIT_CACHE", str(cache))
    (tmp_path / "program.py").write_text("print('it ran')")
    cache.touch()
    assert main.main(["warm", str(tmp_path / "program.py")]) == 1
    cache.unlink()
    cache.mkdir()
    cache.chmod(0o777)
    assert main.main(["warm", str(tmp_path / "program.py")]) == 1
    said = capsys.readouterr()
    assert "it ran" not in said.out
    assert f"can't be kept in {cache / 'machine'} (Not a directory); set TRAINKIT_" in said.err
    assert f"can't be kept in {cache / 'machine'} (others may write to {cache})" in said.err
