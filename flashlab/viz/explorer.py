"""An explorer: a pure function of a few choices, shown with controls. The pattern of all of them.

1. A pure data function: sizes in, a frozen dataclass out. Tests look at this one.
2. A pure picture of that data: ``viz.picture.Picture``, which has words and a table too.
3. ``Explorer(title, draw, controls)`` calls ``draw(**choices)`` whenever a control moves.

One output holds widgets for a notebook and, for a page without a kernel, the picture at the
starting choices. Sliders offer lists of values, not ranges: each place is one that was tested.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from flashlab.viz import bundle, picture
from flashlab.viz.picture import Picture

CLASS = "flashlab-explorer"


@dataclass(frozen=True)
class Control:
    """One choice that a reader has.

    Args:
        name: The keyword of ``draw`` that it sets.
        label: What the reader reads beside it.
        values: What is offered, in order.
        start: The one of them that is set at first.
        words: How a value reads.
    """

    name: str
    label: str
    values: Sequence[Any]
    start: Any
    words: Callable[[Any], str] = str

    def __post_init__(self) -> None:
        if self.start not in self.values:
            raise ValueError(f"{self.label} starts at {self.start!r}, which it does not offer")


class Explorer:
    """Controls above a picture that follows them.

    Args:
        title: One line.
        draw: Takes the controls' values by name; returns the picture, within 100 ms.
        controls: At least one.
    """

    def __init__(
        self, title: str, draw: Callable[..., Picture], controls: Sequence[Control]
    ) -> None:
        if not controls:
            raise ValueError(f"the explorer {title!r} needs at least one control")
        self.title, self.draw, self.controls = title, draw, tuple(controls)

    @property
    def start(self) -> dict[str, Any]:
        """The choices at first."""
        return {control.name: control.start for control in self.controls}

    def at(self, **choices: Any) -> Picture:
        """The picture at some choices; those that are not named are as at first.

        Raises:
            ValueError: no control has that name or offers that value.
        """
        offered = {control.name: control for control in self.controls}
        for name, value in choices.items():
            if name not in offered:
                raise ValueError(f"{self.title} has {', '.join(offered)}, no {name}")
            if value not in offered[name].values:
                values = ", ".join(map(str, offered[name].values))
                raise ValueError(f"{name} is one of {values}, not {value!r}")
        return self.draw(**{**self.start, **choices})

    def widget(self) -> Any:
        """The ipywidgets view; needs no kernel, so that tests can move its controls."""
        return view(self)

    def _words(self) -> str:
        said = [f"{c.label} {c.words(c.start)}" for c in self.controls]
        return f"Shown at: {', '.join(said)}."

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        still = self.at()
        note = f"{self._words()} Run the cell to move the controls."
        html = f"{picture.style()}{still.figure()}<p>{escape(note)}</p>"
        return bundle.bundle(self.widget, html, f"{still!r}\n{self._words()}")

    def __repr__(self) -> str:
        names = ", ".join(control.name for control in self.controls)
        return f"Explorer({self.title!r}, {names})"


def view(explorer: Explorer) -> Any:
    """Sliders in a row above the picture; ipywidgets 7.7 and 8."""
    import ipywidgets as widgets

    sliders = {
        control.name: widgets.SelectionSlider(
            options=[(control.words(value), value) for value in control.values],
            value=control.start,
            description=control.label,
            style={"description_width": "170px"},
            layout=widgets.Layout(width="440px"),
        )
        for control in explorer.controls
    }
    shown = widgets.HTML()

    def redraw(_: Mapping[str, Any] | None = None) -> None:
        choices = {name: slider.value for name, slider in sliders.items()}
        shown.value = explorer.draw(**choices).figure()

    for slider in sliders.values():
        slider.observe(redraw, names="value")
    redraw()
    rows = widgets.HBox(list(sliders.values()), layout=widgets.Layout(flex_flow="row wrap"))
    page = widgets.HTML(picture.style() + bundle.keeps_keys())
    box = widgets.VBox([page, rows, shown])
    for name in (CLASS, bundle.KEYS_STAY):
        box.add_class(name)
    return box
