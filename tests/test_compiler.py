"""The stand-in for Triton's compiled part does what the real one of this version does."""

import importlib
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from flashlab import compiler
from flashlab.worked.vector_add import vector_add_kernel

pytestmark = pytest.mark.skipif(
    not compiler.here(),
    reason="not run: `make test` runs it in .venv, which has the compiled part",
)
F = np.float32
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def stand_in() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "stand_in_of_libtriton", compiler.STAND_IN, submodule_search_locations=[]
    )
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def real() -> ModuleType:
    return importlib.import_module(compiler.PART)


def test_it_never_takes_the_place_of_a_compiled_part(real: ModuleType) -> None:
    assert real.__spec__.origin != str(compiler.STAND_IN)
    assert compiler._Finder.find_spec(compiler.PART, triton._C.__path__) is None
    assert compiler._Finder.find_spec("triton", None) is None


def test_it_is_found_where_there_is_none_or_only_type_stubs(tmp_path: Any) -> None:
    assert compiler._Finder.find_spec(compiler.FOLDER, []).submodule_search_locations == []
    for path in ([], [str(tmp_path)]):
        spec = compiler._Finder.find_spec(compiler.PART, path)
        assert spec is not None and spec.origin == str(compiler.STAND_IN)
        (tmp_path / "libtriton").mkdir(exist_ok=True)


def test_answers_get_the_same_where_this_triton_lacks_it(tmp_path: Path) -> None:
    """Of each exercise two cases, with this version's Python files alone and as it is."""
    package = Path(triton.__file__).parent
    for path in package.rglob("*.py"):
        copy = tmp_path / "triton" / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    runs = str(ROOT / "tests" / "macos" / "runs.py")
    words = [sys.executable, runs, "::20", "0", "flash_forward", "flash3_forward"]
    given, found = os.environ.get("PYTHONPATH", ""), []
    for first in ("", str(tmp_path)):
        paths = os.pathsep.join(filter(None, (first, str(ROOT), given)))
        env = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        found.append(json.loads(done.stdout))
    here, lacking = found
    assert (here.pop("compiler"), lacking.pop("compiler")) == (True, False)
    for row in [*here["slugs"].values(), *lacking["slugs"].values()]:
        assert row.pop("seconds") and row["status"] == "pass" and len(row["runs"]) >= 1
    assert here == lacking


@pytest.mark.parametrize("part", ["ir", "interpreter", "gluon_ir"])
def test_names_that_choose_are_the_same(part: str, stand_in: ModuleType, real: Any) -> None:
    ours, theirs = getattr(stand_in, part), getattr(real, part)
    found = 0
    for name, value in vars(theirs).items():
        members = getattr(value, "__members__", None)
        if members and getattr(value, "__name__", "") == name:
            assert {m.name for m in getattr(ours, name)} == set(members), name
            found += 1
    assert found >= {"ir": 10, "interpreter": 2, "gluon_ir": 0}[part]


def test_everything_that_triton_imports_is_there(stand_in: ModuleType, real: ModuleType) -> None:
    for name in dir(real):
        if not name.startswith("__"):
            assert hasattr(stand_in, name), name
    with pytest.raises(RuntimeError, match="context: no compiler here"):
        stand_in.ir.context()
    with pytest.raises(RuntimeError, match="no compiler here"):
        stand_in.passes.ttir.add_combine(None)


def arguments() -> dict[str, Any]:
    x = torch.zeros(64, 64, dtype=torch.float16)
    bases = (torch.bool, torch.uint8, torch.uint16, torch.int64, torch.bfloat16, torch.float64,
             torch.float8_e4m3fn, torch.float8_e5m2)  # fmt: skip
    ints = (0, 1, 15, 16, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63)
    return {
        **{str(kind): torch.zeros(3, dtype=kind) for kind in bases},
        **{str(n): n for n in ints},
        "tensor": x, "shifted": x.view(-1)[1:], "none": None, "true": True, "float": 1.0,
        "tuple": (1, 16, x, None, (2.0, True)), "constexpr": tl.constexpr(3),
        "kernel": vector_add_kernel, "descriptor": TensorDescriptor(x, [64, 64], [64, 1], [8, 8]),
        "reinterpreted": triton.reinterpret(x.view(torch.int8), tl.float8e5),
        "text": "a", "list": [1], "numpy": np.int64(3), "type": tl.float16,
    }  # fmt: skip


@pytest.mark.parametrize("name", arguments())
def test_arguments_are_described_alike(name: str, stand_in: ModuleType, real: Any) -> None:
    from triton.backends.compiler import BaseBackend

    def said(part: Any, *how: bool) -> Any:
        try:
            return part.native_specialize_impl(BaseBackend, arguments()[name], *how)
        except TypeError:
            return TypeError

    for how in ((False, False, False), (False, True, True), (True, True, False),
                (False, True, False), (False, False, True)):  # fmt: skip
        theirs, ours = said(real, *how), said(stand_in, *how)
        if name == "constexpr":
            theirs, ours = [(kind, value.value) for kind, value in (theirs, ours)]
        assert ours == theirs, how


@pytest.mark.parametrize("value", ["1", "true", "ON", "yes", "Y", "0", "off", "no", "", "junk"])
def test_settings_are_read_alike(
    value: str, stand_in: ModuleType, real: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETTING", value)
    for default in (True, False):
        assert stand_in.getenv_bool("SETTING", default) == real.getenv_bool("SETTING", default)
        assert stand_in.getenv_bool("ABSENT", default) == real.getenv_bool("ABSENT", default)
    assert stand_in.getenv("SETTING") == real.getenv("SETTING")
    assert stand_in.getenv("ABSENT", "d") == real.getenv("ABSENT", "d")


def pointers(x: np.ndarray, at: Any) -> np.ndarray:
    return (x.ctypes.data + np.asarray(at) * x.itemsize).astype(np.uint64)


@pytest.mark.parametrize(
    "dtype", [F, np.float16, np.float64, np.int8, np.int32, np.int64, np.uint16]
)
def test_loads_and_stores_are_the_same(dtype: Any, stand_in: ModuleType, real: Any) -> None:
    rng = np.random.default_rng(0)
    at, mask = rng.permutation(64)[:32].reshape(4, 8), rng.random((4, 8)) < 0.6
    other, value = np.full((4, 8), 3, dtype), rng.integers(0, 99, (4, 8)).astype(dtype)
    found = []
    for part in (stand_in.interpreter, real.interpreter):
        x = np.arange(64).astype(dtype)
        loaded = part.load(pointers(x, at), mask, other, np.dtype(dtype))
        part.store(pointers(x, at), value, mask)
        none = part.load(
            np.zeros((4, 8), np.uint64), np.zeros((4, 8), bool), other, np.dtype(dtype)
        )
        found.append((loaded, x, none))
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


OPS = "ADD FADD AND OR XOR XCHG MAX MIN UMAX UMIN".split()
TYPES = "int8 int16 int32 uint32 int64 uint64 float16 float32 float64".split()


def updated(part: Any, op: str, dtype: str) -> tuple[Any, ...]:
    """What was there before and what is there afterwards; or that the type will not do."""
    rng = np.random.default_rng(1)
    at, mask = rng.integers(0, 8, (4, 8)), rng.random((4, 8)) < 0.7
    value, x = rng.integers(0, 99, (4, 8)).astype(dtype), rng.integers(0, 99, 8).astype(dtype)
    part = part.interpreter
    how = getattr(part.RMW_OP, op), pointers(x, at), value, mask, part.MEM_SEMANTIC.RELAXED
    try:
        before = part.atomic_rmw(*how)
    except ValueError as error:
        return (str(error),)
    return before.dtype, np.where(mask, before, 0).tolist(), x.tolist()


@pytest.mark.parametrize("op", OPS)
def test_updates_are_the_same_also_of_one_place(op: str, stand_in: ModuleType, real: Any) -> None:
    found = {dtype: updated(real, op, dtype) for dtype in TYPES}

    assert {dtype: updated(stand_in, op, dtype) for dtype in TYPES} == found
    assert {len(said) for said in found.values()} == {1, 3}


@pytest.mark.parametrize("dtype", [np.int32, np.int64, F])
def test_compare_and_swap_is_the_same(dtype: Any, stand_in: ModuleType, real: Any) -> None:
    found = []
    for part in (stand_in.interpreter, real.interpreter):
        x, at = np.array([0, 5, -0.0, 7], dtype), np.array([0, 1, 2, 0, 3])
        seen = part.atomic_cas(
            pointers(x, at), np.array([0, 0, 0, 0, 7], dtype), np.array([1, 2, 3, 4, 9], dtype),
            part.MEM_SEMANTIC.ACQUIRE,
        )  # fmt: skip
        found.append((seen, x))
    for ours, theirs in zip(*found, strict=True):
        assert np.array_equal(ours, theirs)
    assert found[0][1].tolist() == [1, 5, -0.0 if dtype is F else 3, 9]


def test_addresses_between_elements_are_refused(stand_in: ModuleType) -> None:
    x = np.zeros(4, F)
    odd = pointers(x, [0, 1]) + np.array([0, 1], np.uint64)
    with pytest.raises(ValueError, match="whole elements"):
        stand_in.interpreter.load(odd, np.ones(2, bool), np.zeros(2, F), np.dtype(F))


def test_a_product_and_sum_is_rounded_once(stand_in: ModuleType, real: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 20000)).astype(F)
    far = np.exp2(rng.integers(-60, 30, 20000)).astype(F)
    z = (-(x.astype(np.float64) * y)).astype(F) + far * rng.standard_normal(20000).astype(F)
    x[:4], y[:4], z[:4] = [np.inf, np.nan, 0, 3e38], [0, 1, -0.0, 3e38], [1, 1, 0, -np.inf]
    ours = stand_in.interpreter.fma_fp32(x, y, z)

    exact = [_fma(*map(float, v)) for v in zip(x[4:200], y[4:200], z[4:200], strict=True)]
    assert ours[4:200].tolist() == exact
    doubles = [v.astype(np.float64) for v in (x[4:200], y[4:200], z[4:200])]
    summed = stand_in.interpreter.fma_fp64(*doubles)
    if hasattr(real.interpreter, "fma_fp32"):  # Triton 3.9
        theirs = real.interpreter.fma_fp32(x, y, z)
        assert np.array_equal(ours, theirs, equal_nan=True)
        assert np.array_equal(summed, real.interpreter.fma_fp64(*doubles))
    assert np.allclose(summed, doubles[0] * doubles[1] + doubles[2])


def _fma(x: float, y: float, z: float) -> float:
    """x * y + z in exact fractions, rounded to fp32 by halves to even."""
    from fractions import Fraction

    value = Fraction(x) * Fraction(y) + Fraction(z)
    if value == 0:
        return 0.0
    exponent = max(math.frexp(float(value))[1] - 24, -149)
    unit = Fraction(2) ** exponent
    return float(round(value / unit) * unit)


def test_described_points_have_no_part_for_a_compiler() -> None:
    from flashlab import exercises

    exercise = exercises.get("vector_scale")
    assert "resources" in exercise.points() and sum(exercise.points().values()) == 100
    without = exercise.points(compiled=False)
    assert "resources" not in without and sum(without.values()) == 100
    assert SimpleNamespace(**without).core > 45
