"""A profile of standard attention as shares of its time, from the rows of ``bench.standard``."""

from collections.abc import Sequence

from flashlab.bench.standard import ONE_KERNEL, STEPS
from flashlab.viz.picture import Picture
from flashlab.viz.shares import shares

PRODUCTS = ("q k^T", "p v")
WHO = {"torch": "PyTorch", "ours": "the course"}


def profile(rows: Sequence[dict]) -> Picture:
    """A bar of shares for each head dimension and each author of kernels, the times as a table.

    Args:
        rows: As ``bench.standard.rows`` gives them: one a step and head dimension.
    """
    bars, heading = {}, ("D", "step", "FLOPs a byte", "PyTorch ms", "TB/s", "ours ms", "TB/s ")
    table, said = [heading], []
    for D in dict.fromkeys(row["D"] for row in rows):
        here = {row["step"]: row for row in rows if row["D"] == D}
        for who, name in WHO.items():
            bars[f"D {D}, {name}"] = {step: here[step]["ms"][who] for step in STEPS}
        table += [_cells(here[step]) for step in (*STEPS, ONE_KERNEL)]
        times = {step: here[step]["ms"]["torch"] for step in STEPS}
        whole = sum(times.values())
        share = sum(ms for step, ms in times.items() if step not in PRODUCTS) / whole
        said.append(
            f"At D {D} the elementwise steps take {100 * share:.0f} % of PyTorch's time, and one "
            f"kernel is {whole / here[ONE_KERNEL]['ms']['torch']:.1f} times faster than all six."
        )
    first = rows[0]
    title = f"Time of standard attention, B {first['B']}, H {first['H']}, N {first['N']:,}, fp16"
    picture = shares(title, bars, " ".join(said))
    return Picture(title, picture.svg, picture.caption, table)


def _cells(row: dict) -> tuple[str, ...]:
    rates = []
    for who in WHO:
        ms = row["ms"][who]
        rates += [f"{ms:.3f}", f"{row['bytes'] / ms / 1e9:.2f}"]
    return (str(row["D"]), row["step"], f"{row['flops'] / row['bytes']:.2f}", *rates)
