"""Turns a worker's raw reply into the result of a case: one status, one sentence. Trusted side.

Each check answers None or the fields of the result that it explains; the first that explains the
run decides.
"""

import math
import re
import signal
from collections.abc import Sequence
from typing import Any

import torch

from flashlab import numerics
from flashlab.exercise import Exercise
from flashlab.grader import sentences
from flashlab.grader.contract import MAX_ELEMENTS, MAX_TILE
from flashlab.grader.pool import Reply
from flashlab.grader.report import CaseResult, Where
from flashlab.grader.trials import Raw, Run, Trial

LOST = 70  # exit code of a worker whose own code, not the answer's, failed
KERNEL_KINDS = {"OutOfBounds": "oob", "RaceError": "race", "UninitialisedRead": "uninitialised"}
STATUSES_OF_KERNELS = ("oob", "race", "uninitialised", "compile", "crash")
STATUSES_OF_HARNESSES = ("timeout", "wrong", "contract", "oom")  # beside those
OF_HARNESSES = (["PipelineError"], ["RankError"], ["Deadlock"])
ALARM = re.compile(r"Step (\d+) is not written yet[^\n\"']*")
ATOMIC = ("dq",)  # may be summed by atomics, whose order differs from run to run on a GPU
MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "not enough memory",
    "CUDA out of memory",
)

Fields = dict[str, Any]


def judge(exercise: Exercise, trial: Trial, reply: Reply) -> Run:
    """The run's outputs by name and its result."""
    run = Run(trial, reply)
    case = trial.case
    result = run.result = CaseResult(
        case.name, case.group, dict(trial.tiles), dict(trial.sizes), "pass", case.why, trial.own
    )
    result.tier, result.printed, result.seconds = trial.tier, reply.printed, reply.seconds
    checks = (_ended, _raised, _breached, _returned, _unwritten, _modified, _numbers, _order)
    for check in checks:
        found = check(exercise, run)
        if found:
            for name, value in found.items():
                setattr(result, name, value)
            break
    header = reply.header or {}
    result.observed_tiles = observed(exercise, header)
    result.io = _io(exercise, run)
    if run.outputs and result.status in numerics.SEVERITY:
        run.raw = Raw("ran", run.outputs)
    else:
        kind = str((header.get("error") or {}).get("kind", ""))
        run.raw = Raw(result.status, {}, result.argument, kind, result.detail)
    return run


def observed(exercise: Exercise, header: Fields) -> dict[str, int]:
    """Tile sizes that the launches really used, by name; a launch may not name them all.

    Sizes that no GPU takes are left out: no case is made for them.
    """
    found: dict[str, int] = {}
    for launch in header.get("launches") or []:
        for name in exercise.tile_names:
            size = launch.get("tiles", {}).get(name)
            if isinstance(size, int) and 0 < size <= MAX_TILE:
                found.setdefault(name, size)
    return found if math.prod(found.values()) <= MAX_ELEMENTS else {}


def _io(exercise: Exercise, run: Run) -> dict[str, list[int]]:
    """Bytes [loaded, stored] by the names of inputs and outputs; the rest is "scratch"."""
    names = {f"#{i}": o.name for i, o in enumerate(exercise.returns(run.trial.case))}
    moved = (run.reply.header or {}).get("io")
    if not isinstance(moved, dict):
        return {}
    found: dict[str, list[int]] = {}
    for number, (loaded, stored) in moved.items():  # merge_partials returns the names it takes
        entry = found.setdefault(names.get(number, number), [0, 0])
        entry[0] += int(loaded)
        entry[1] += int(stored)
    return found


def _ended(exercise: Exercise, run: Run) -> Fields | None:
    """The worker died, or sent no whole reply."""
    reply = run.reply
    if reply.header is not None:
        return None
    if reply.how in ("wall", "memory", "processes"):
        status = {"wall": "timeout", "memory": "oom", "processes": "crash"}[reply.how]
        return {"status": status, "detail": sentences.OVER[reply.how]}
    if reply.how == "lost" or reply.code == LOST:
        return {"status": "grader_error", "detail": sentences.LOST, "traceback": reply.printed}
    if reply.code == -signal.SIGXCPU:
        return {"status": "timeout", "detail": sentences.OVER["cpu"]}
    if reply.code < 0:
        name = signal.Signals(-reply.code).name
        return {"status": "crash", "detail": sentences.died_of(name)}
    detail = sentences.left_with(reply.code)
    if reply.problem:
        detail = sentences.FORGED.format(problem=reply.problem)
    return {"status": "crash", "detail": detail}


def _raised(exercise: Exercise, run: Run) -> Fields | None:
    """The answer raised, or the recorder refused it."""
    header = run.reply.header
    error = header.get("error")
    if not isinstance(error, dict):
        return None
    types, message = _texts(error.get("types")), str(error.get("message", ""))
    alarm = ALARM.search(message)
    if alarm:
        return {"status": "unfilled", "detail": alarm.group(0)}
    if header.get("breaches"):
        return None
    status = _status_of(types, message, str(error.get("kind", "")))
    order = sentences.PHASES.get(str(header.get("phase")), "")
    return {
        "status": status,
        "detail": order + sentences.raised(status, types, message, error),
        "line": _line(error),
        "argument": str(error.get("argument", "")),
        "traceback": str(error.get("traceback", ""))[-4000:],
    }


def _status_of(types: list[str], message: str, kind: str) -> str:
    harness = types[:1] in OF_HARNESSES and kind in STATUSES_OF_HARNESSES
    if kind in STATUSES_OF_KERNELS or harness:
        return kind
    for name in types:
        if name in KERNEL_KINDS:
            return KERNEL_KINDS[name]
    if "SyntaxError" in types:
        return "contract"
    if types[:1] in (["OutOfResources"], ["CompilationError"]):
        return "compile"
    if "MemoryError" in types or any(text in message for text in MEMORY):
        return "oom"
    return "crash"


def _breached(exercise: Exercise, run: Run) -> Fields | None:
    """The answer did in torch or Python what its kernel should do, or left its place."""
    breaches = run.reply.header.get("breaches")
    if not breaches:
        return _whole(exercise, run)
    first = breaches[0]
    return {
        "status": "forbidden",
        "detail": sentences.breach(str(first.get("rule")), str(first.get("what"))),
        "line": f"line {first['line']}" if first.get("line") else "",
    }


def _whole(exercise: Exercise, run: Run) -> Fields | None:
    """Torch code that should work tile by tile made the whole N_q x N_k, or more, at once."""
    sizes, tiles = run.trial.sizes, run.trial.tiles
    N_q, N_k = sizes.get("N_q"), sizes.get("N_k")
    if exercise.tiles_as != "arguments" or not N_q or not N_k or N_k == sizes.get("D"):
        return None
    if N_k <= tiles.get("BLOCK_N", N_k):
        return None
    for shape, line in (run.reply.header.get("shapes") or {}).items():
        sides = [int(side) for side in shape.split(" x ") if side.isdigit()]
        if _all_pairs(sides[-2:], sizes, tiles) or _all_keys(sides, sizes, tiles):
            rows, columns = sorted(_of_pairs(sides, sizes))[-2:]
            return {
                "status": "forbidden",
                "detail": sentences.whole(rows, columns),
                "line": f"line {line}",
            }
    return None


def _all_pairs(sides: Sequence[int], sizes: Fields, tiles: dict[str, int]) -> bool:
    """Whether a matrix has room for every query beside every key, and is no tile and no input."""
    both, tile = sorted(sides), sorted((tiles["BLOCK_M"], tiles["BLOCK_N"]))
    if len(both) < 2 or sizes.get("D") in sides or (both[0] <= tile[0] and both[1] <= tile[1]):
        return False
    small, large = sorted((sizes["N_q"], sizes["N_k"]))
    return both[0] >= small and both[1] >= large


def _all_keys(sides: Sequence[int], sizes: Fields, tiles: dict[str, int]) -> bool:
    """Whether a tensor has more pairs of queries and keys than a tile, with all keys in a row."""
    left = _of_pairs(sides, sizes)
    more = math.prod(left) > tiles["BLOCK_M"] * tiles["BLOCK_N"]
    return more and sum(side > 1 for side in left) > 1 and max(left) >= sizes["N_k"]


def _of_pairs(sides: Sequence[int], sizes: Fields) -> list[int]:
    """The axes of a tensor but for batch, heads and head dimension."""
    left = list(sides)
    for name in ("D", "B", "H"):
        if sizes.get(name) in left and len(left) > 2:
            left.remove(sizes[name])
    return left


def _returned(exercise: Exercise, run: Run) -> Fields | None:
    """What came back is not what the contract says; fills ``run.outputs`` when it is."""
    said = run.reply.header.get("returned")
    outputs = exercise.returns(run.trial.case)
    expected = [o.name for o in outputs]
    if not isinstance(said, dict) or not isinstance(said.get("items"), list):
        return {"status": "contract", "detail": sentences.returned("nothing", expected)}
    if exercise.kind == "python":
        return None
    if said.get("count") != len(expected) or len(said["items"]) != len(expected):
        came = f"{said.get('type')} of {said.get('count')}"
        if said.get("type") == "NoneType":
            came = "None"
        return {"status": "contract", "detail": sentences.returned(came, expected)}
    for output, item in zip(outputs, said["items"], strict=True):
        wrong = _wrong_item(exercise, run, output, item)
        if wrong:
            return {"status": "contract", "detail": wrong, "output": output.name}
        run.outputs[output.name] = run.reply.arrays[str(item["array"])]
    return None


def _wrong_item(exercise: Exercise, run: Run, output: Any, item: dict[str, Any]) -> str:
    device = "cpu" if run.trial.tier == "cpu" or exercise.ranks else "cuda"
    if "device" in item and item["device"] != device:
        return sentences.differs(output.name, "device", item["device"], device)
    wanted = _dtype(output.dtype, run.trial)
    if "array" not in item and item.get("dtype", wanted) != wanted:
        return sentences.differs(output.name, "dtype", item["dtype"], wanted)
    if "array" not in item:
        return sentences.not_a_tensor(
            output.name, str(item.get("type")), bool(item.get("subclass"))
        )
    array = run.reply.arrays.get(str(item["array"]))
    want = list(run.trial.reference[output.name].shape)
    shape, dtype = item.get("shape"), str(item.get("dtype"))
    if shape != want or array is None or list(array.shape) != want:
        return sentences.differs(output.name, "shape", shape, want)
    if dtype != wanted or array.dtype != getattr(torch, wanted):
        return sentences.differs(output.name, "dtype", dtype, wanted)
    return ""


def _dtype(declared: str, trial: Trial) -> str:
    if declared != "input":
        return declared
    first = next(t for t in trial.sent.values())
    return str(first.dtype).removeprefix("torch.")


def _modified(exercise: Exercise, run: Run) -> Fields | None:
    """An input is not what it was before the call."""
    modified = _texts(run.reply.header.get("modified"))
    if not modified:
        return None
    return {"status": "contract", "argument": modified[0], "detail": sentences.modified(modified)}


def _unwritten(exercise: Exercise, run: Run) -> Fields | None:
    """A returned tensor that no kernel stored, or not all of it."""
    if exercise.kind not in ("triton", "gluon", "torch") or run.trial.tier != "cpu":
        return None
    header = run.reply.header
    moved, gaps = header.get("io") or {}, header.get("unwritten") or {}
    no_launch = exercise.kind == "torch" or any(t.numel() == 0 for t in run.trial.sent.values())
    for number, output in enumerate(exercise.returns(run.trial.case)):
        key, size = f"#{number}", run.outputs[output.name].numel()
        missing, first = gaps.get(key) or (0, None)
        stored = (moved.get(key) or (0, 0))[1]
        if missing and (not no_launch or exercise.kind == "torch"):
            status = "uninitialised"
        elif size and not stored and not no_launch and not header.get("modified"):
            status = "forbidden"
        else:
            continue
        detail = sentences.unwritten(output.name, missing or size, size, first)
        return {"status": status, "output": output.name, "detail": detail}
    return None


def _numbers(exercise: Exercise, run: Run) -> Fields | None:
    """The comparer's worst finding."""
    result, trial = run.result, run.trial
    if exercise.kind == "python":
        return _plain(run)
    findings = numerics.compare(run.outputs, trial.reference, trial.limits, trial.tiles)
    worst = numerics.worst(findings)
    result.error, result.limit = worst.error, worst.limit
    if worst.status == "pass":
        return None
    return {
        "status": worst.status,
        "detail": worst.sentence,
        "output": worst.output,
        "where": Where(**worst.where) if worst.where else None,
    }


def _plain(run: Run) -> Fields | None:
    """Numbers, tuples and dictionaries: equal, or the first place where they differ."""
    said = run.reply.header["returned"]
    values = [item.get("value") for item in said["items"]]
    expected = sentences.as_json(list(run.trial.reference.values()))
    if (len(expected) > 1 and said.get("type") != "tuple") or not values:
        names = list(run.trial.reference)
        return {"status": "contract", "detail": sentences.returned(str(said["type"]), names)}
    got, expected = (values, expected) if len(expected) > 1 else (values[0], expected[0])
    detail = sentences.first_difference(expected, got)
    return {"status": "wrong", "detail": detail} if detail else None


def _order(exercise: Exercise, run: Run) -> Fields | None:
    """Programs in reversed order, or the same call again on a GPU, gave other bits."""
    same = run.reply.header.get("same")
    if not isinstance(same, list):
        return None
    for output, equal in zip(exercise.returns(run.trial.case), same, strict=False):
        if not equal and not (run.trial.tier != "cpu" and output.name in ATOMIC):
            said = sentences.order_matters(output.name, run.trial.tier)
            return {"status": "race", "output": output.name, "detail": said}
    return None


def _line(error: dict[str, Any]) -> str:
    if not error.get("line"):
        return ""
    source = str(error.get("source", "")).strip()
    return f"line {error['line']}" + (f': "{source}"' if source else "")


def _texts(value: Any) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else []
