"""Reference pages: Sphinx reads the docstrings itself; here it is said of which modules."""

import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import flashlab
from flashlab.authoring import contract

# Page -> what it holds, in words, and its modules; a package stands for all that it contains.
PAGES = {
    "learner": ("What a notebook calls", ("flashlab",)),
    "recorder": (
        "The recorder: bytes, races and reads of nothing, counted on the CPU",
        ("flashlab.iocount", "flashlab.iocount.bounds"),
    ),
    "reference": ("References: contracts and expected values", ("flashlab.reference",)),
    "machines": (
        "Machines: tiers, data sheets, the roofline, the comparer",
        ("flashlab.device", "flashlab.hardware", "flashlab.numerics"),
    ),
    "pipeline": ("The model of a Hopper SM", ("flashlab.pipeline",)),
    "exercises": ("Exercises as data", ("flashlab.exercise", "flashlab.exercises")),
    "pictures": (
        "Pictures: players, explorers, still ones",
        ("flashlab.viz.player", "flashlab.viz.explorer", "flashlab.viz.picture"),
    ),
}


def pages() -> dict[str, str]:
    """File name -> Markdown."""
    return {f"api/{name}.md": _page(*PAGES[name]) for name in PAGES}


def _page(title: str, modules: tuple[str, ...]) -> str:
    parts = [f"# {title}"]
    for name in modules:
        if name == "flashlab":
            names = flashlab.__all__
            parts += [_directive("autofunction", f"flashlab.{each}") for each in names]
        elif name == "flashlab.reference":
            parts += [_contracts(module) for module in _inside(name)]
        else:
            parts.append(_module(name))
    return "\n\n".join(parts) + "\n"


def _inside(package: str) -> list[str]:
    folder = importlib.import_module(package).__path__
    return [f"{package}.{found.name}" for found in pkgutil.iter_modules(folder)]


def _contracts(name: str) -> str:
    """The functions of a module of references, in the form of the labs' contract cells; without
    those that only refuse wrong arguments.
    """
    module = importlib.import_module(name)
    parts = [f"## `{name}`", _opening(module)]
    for each, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__ == name
        if own and value.__doc__ and not each.startswith(("_", "check_")):
            parts += [f"### `{each}`", *contract.described(each, value)]
    return "\n\n".join(parts)


def _module(name: str) -> str:
    module = importlib.import_module(name)
    heading = f"## `{name}`"
    exported = getattr(module, "__all__", None)
    if not exported:
        return f"{heading}\n\n{_directive('automodule', name, members='')}"
    kinds = {True: "autoclass", False: "autofunction"}
    shown = [(each, getattr(module, each)) for each in exported]
    parts = [
        _directive(kinds[inspect.isclass(value)], f"{name}.{each}", **_members(value))
        for each, value in shown
        if inspect.isclass(value) or inspect.isfunction(value)
    ]
    return "\n\n".join([heading, _opening(module), *parts])


def _opening(module: ModuleType) -> str:
    """What a module says of itself first, without its layer, which concerns authors."""
    doc = (inspect.getdoc(module) or "").split("\n\n")[0]
    return re.sub(r"\s*Floor: \w+\.", "", doc)


def _members(value: object) -> dict[str, str]:
    return {"members": ""} if inspect.isclass(value) else {}


def _directive(kind: str, name: str, **options: str) -> str:
    lines = [
        f".. {kind}:: {name}",
        *(f"   :{key}: {text}".rstrip() for key, text in options.items()),
    ]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"
