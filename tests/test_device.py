"""Tiers by compute capability, and what the doctor says of a machine."""

import pytest

from flashlab import device, doctor


@pytest.mark.parametrize(
    ("capability", "tier", "speed", "tiers"),
    [
        (0, "cpu", False, ("cpu",)),
        (70, "cpu", False, ("cpu",)),
        (75, "gpu", False, ("cpu", "gpu")),
        (80, "gpu", True, ("cpu", "gpu")),
        (90, "hopper", True, ("cpu", "gpu", "hopper")),
        (100, "gpu", True, ("cpu", "gpu")),
    ],
)
def test_tier_of_a_capability(capability, tier, speed, tiers):
    found = device.classify("card", capability)
    assert (found.tier, found.speed_points, found.tiers) == (tier, speed, tiers)
    assert bool(found.note) == (0 < capability < 80)


@pytest.mark.core
def test_doctor_runs_its_kernel_here(capsys):
    rows = {row.name: row for row in doctor.examine()}
    assert rows["smoke cpu"].state == "ok", rows["smoke cpu"].value
    assert rows["triton"].state == "ok" and rows["tier"].value.startswith(device.detect().tier)
    assert all(row.remedy for row in rows.values() if row.state == "bad")


def test_doctor_names_what_does_not_fit(monkeypatch, capsys):
    versions = {"torch": "2.9.1", "triton": "3.5.1", "numpy": "2.4.6"}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, ""))
    monkeypatch.setattr(doctor.platform, "system", lambda: "Darwin")
    assert doctor.main() == 1
    text = capsys.readouterr().out
    for part in ("2.9.1", "torch 2.11 or newer", "Triton 3.6 to 3.9", "Colab", "jupyterlab"):
        assert part in text


def test_doctor_reports_a_smoke_kernel_with_wrong_numbers(monkeypatch):
    monkeypatch.setattr("flashlab.worked.smoke.smoke", lambda device="cpu": float("nan"))
    assert doctor._smoke("cpu").state == "bad"
