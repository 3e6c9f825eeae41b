"""Figures measured on GPUs and kept with card and date, for readers who have none."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "records"
FACTS = ("card", "date", "torch")  # what every record says of itself
HOW = "medians of interleaved runs with a cold L2"  # of every bench that does not say its own


def load(name: str) -> dict | None:
    """The record ``name`` with its ``facts`` and ``rows``; None if nothing was recorded yet."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def said(record: dict) -> str:
    """One sentence on where and when a record was made."""
    facts = record["facts"]
    with_triton = f" and Triton {facts['triton']}" if "triton" in facts else ""
    return (
        f"Recorded on an {facts['card']} on {facts['date']} with torch {facts['torch']}"
        f"{with_triton} ({facts.get('how', HOW)})."
    )
