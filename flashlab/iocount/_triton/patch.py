"""Setting attributes for a while, and putting them back exactly as they were."""

from typing import Any

_ABSENT = object()


class Patches:
    """Attributes set on modules and classes; `undo` restores each owner's own dictionary."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name`` until `undo`."""
        self._undo.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restore everything, last first."""
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
