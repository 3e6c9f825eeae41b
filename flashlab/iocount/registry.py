"""Every tensor that a recording saw: found again by its memory, forgotten when it is freed."""

from torch import Tensor

from flashlab.iocount.argument import Argument
from flashlab.iocount.heat import Touch
from flashlab.iocount.storage import LaunchShadow, Storage
from flashlab.iocount.tally import Tally


class Registry:
    """Storages, counts and declared outputs of one recording.

    Args:
        tally: Gets every `Touch` and `Output` made.
        names: Kernel arguments whose tensors are outputs.
        sparse: As `count_io` has it.
    """

    def __init__(self, tally: Tally, names: set[str], sparse: bool | None) -> None:
        self.tally, self.names, self.sparse = tally, names, sparse
        self._storages: dict[int, Storage] = {}
        self._touches: dict[tuple, Touch] = {}
        self._seen = 0
        self._arguments: set[str] = set()

    def storage(self, tensor: Tensor) -> Storage:
        """The record of the tensor's memory; a new one when freed memory is used again."""
        pointer = tensor.untyped_storage().data_ptr()
        found = self._storages.get(pointer)
        if found is None or found.expired:
            if found is not None:
                found.settle()
            self._seen += 1
            found = self._storages[pointer] = Storage(self._seen, tensor, self.sparse)
        found.see(tensor.element_size())
        return found

    def expect_output(self, tensor: Tensor, name: str | None = None) -> None:
        """Declare ``tensor`` an output: reading it unwritten is an error, a gap is told."""
        if tensor.numel():
            label = name or f"output {len(self.tally.outputs)}"
            output = self.storage(tensor).expect(label, tensor)
            if output is not None:
                self.tally.outputs.append(output)

    def bind(self, tensors: list[tuple[str, Tensor, Tensor]]) -> list[Argument]:
        """The (name, tensor, host tensor) of a launch, with windows from 1 on and shadows."""
        shadows: dict[int, LaunchShadow] = {}
        for name, tensor, _ in tensors:
            known = [output.name for output in self.storage(tensor).outputs]
            if name in self.names and name not in known:
                self.expect_output(tensor, name)
        self._arguments.update(name for name, _, _ in tensors)
        arguments = []
        for name, tensor, host in tensors:
            storage = self.storage(tensor)
            shadow = shadows.get(storage.number)
            if shadow is None:
                shadow = shadows[storage.number] = LaunchShadow(storage)
            touch = self._touch(name, tensor, storage)
            arguments.append(Argument(len(arguments) + 1, name, host, shadow, touch))
        return arguments

    def _touch(self, name: str, tensor: Tensor, storage: Storage) -> Touch:
        view = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        key = (name, storage.number, *view)
        touch = self._touches.get(key)
        if touch is None:
            touch = self._touches[key] = Touch(name, tensor, storage, self.sparse)
            self.tally.touches.append(touch)
        return touch

    def check_names(self) -> None:
        """ValueError for a name among the outputs that no launched kernel has."""
        for name in sorted(self.names - self._arguments):
            known = ", ".join(sorted(self._arguments))
            raise ValueError(f"outputs names {name!r}, but the kernels' tensors are {known}")

    def sweep(self) -> None:
        """Free the maps of tensors that are gone; their sums stay."""
        for key, touch in list(self._touches.items()):
            if touch.storage.expired:
                touch.forget()
                del self._touches[key]
        for pointer, storage in list(self._storages.items()):
            if storage.expired:
                storage.settle()
                del self._storages[pointer]
