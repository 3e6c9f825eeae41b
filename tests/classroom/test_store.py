"""The job store: whole results or none, nothing twice, one writer, parts that come together."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashlab.classroom import grade_plan, shards
from flashlab.classroom.store import Store

WRITER = """
import hashlib, sys
from pathlib import Path
from flashlab.classroom.store import Store
with Store(Path(sys.argv[1])).locked() as store:
    print("started", flush=True)
    for i in range(100000):
        key = hashlib.sha256(str(i).encode()).hexdigest()
        if store.get(key) is None:
            assert store.put(key, {"key": key, "number": i, "text": "x" * 20000})
"""


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "grades").locked() as made:
        yield made


def test_a_result_comes_back_and_is_never_replaced(store: Store) -> None:
    assert store.get(key(1)) is None
    assert store.put(key(1), {"points": 7})
    assert not store.put(key(1), {"points": 100})
    assert store.get(key(1)) == {"points": 7}
    assert store.keys() == [key(1)]


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 40])
def test_a_damaged_result_is_set_aside_and_named(store: Store, damage: bytes) -> None:
    store.put(key(1), {"points": 7})
    store.path(key(1)).write_bytes(damage)

    assert store.get(key(1)) is None
    assert len(store.broken) == 1 and Path(store.broken[0]).read_bytes() == damage
    assert store.put(key(1), {"points": 7})


def test_a_key_is_no_path(store: Store) -> None:
    with pytest.raises(ValueError, match="no key"):
        store.put("../../etc/passwd", {})


def test_only_one_process_writes(store: Store) -> None:
    with pytest.raises(ValueError, match="another process"), Store(store.folder).locked():
        pass


def test_another_format_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"format": 99}')

    with pytest.raises(ValueError, match="format 99"), Store(tmp_path).locked():
        pass


def test_losses_are_counted_over_runs(store: Store) -> None:
    assert store.losses(key(1)) == 0
    assert [store.note_loss(key(1)) for _ in range(3)] == [1, 2, 3]
    assert Store(store.folder).losses(key(1)) == 3
    assert store.losses(key(2)) == 0


def test_a_kill_at_any_moment_leaves_whole_results(tmp_path: Path) -> None:
    chooser, before = random.Random(0), {}
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"started\n"
            time.sleep(chooser.uniform(0.05, 0.4))
            os.kill(writer.pid, signal.SIGKILL)
        with Store(tmp_path).locked() as store:
            found = {name: store.get(name) for name in store.keys()}
            assert store.broken == []
            assert not list(tmp_path.rglob(".new-*"))
        assert all(value["key"] == name for name, value in found.items())
        assert before.items() <= found.items()
        before = found
    assert len(before) > 3
    assert sorted(v["number"] for v in before.values()) == list(range(len(before)))


def test_parts_come_together_once(tmp_path: Path, store: Store) -> None:
    jobs = [{"key": key(i)} for i in range(50)]
    store.put(key(0), {"key": key(0)})
    for shard in ("1/3", "2/3", "3/3"):
        with Store(shards.folder(store.folder, shard)).locked() as part:
            for job in grade_plan.of_shard(jobs, shard):
                part.put(job["key"], job)

    assert shards.merge(store, []) == (49, [])
    assert store.keys() == sorted(job["key"] for job in jobs)
    assert shards.merge(store, []) == (0, [])


def test_a_damaged_part_is_named(store: Store) -> None:
    place = shards.folder(store.folder, "1/1")
    with Store(place).locked() as part:
        part.put(key(1), {"key": key(1)})
        part.put(key(2), {"key": "another"})
        part.path(key(1)).write_bytes(b"cut")

    added, said = shards.merge(store, [place, store.folder / "nowhere"])

    assert added == 0
    assert len(said) == 3 and all("damaged" in s or "no results" in s for s in said)


def test_every_job_is_in_one_part() -> None:
    jobs = [{"key": key(i)} for i in range(200)]
    parts = [grade_plan.of_shard(jobs, f"{i}/7") for i in range(1, 8)]

    assert sorted(j["key"] for part in parts for j in part) == sorted(j["key"] for j in jobs)
    assert all(parts)
    for wrong in ("0/3", "4/3", "1", "a/b", "/"):
        with pytest.raises(ValueError, match="such as 2/8"):
            grade_plan.of_shard(jobs, wrong)
