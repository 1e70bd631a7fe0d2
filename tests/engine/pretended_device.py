"""A simulated device on the CPU: tensors report it as their device, and each wait for it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("cuda")
_WAITS = {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero", "masked_select"}


class PretendedDevice(TorchFunctionMode):
    """While it is entered, `waits` records the name of each operation that would wait for a device.

    These are operations that copy values to the host, and copies to the device from memory that is not pinned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self._here: list[Tensor] = []  # tensors that were copied to the host, kept so that their ids are not reused
        self._pinned: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        del types
        given: dict[str, Any] = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        first = args[0] if args else None
        if func == Tensor.device.__get__:
            return DEVICE
        if name == "pin_memory":
            self._pinned.append(args[0])
            return first
        if name == "to" and torch.device in map(type, args):
            if not (given.pop("non_blocking", False) and _is_among(first, self._pinned)):
                self.waits.append("to")
            return first
        if name == "cpu":
            self.waits.append("cpu")
            self._here.append(args[0])
            return first
        if name in _WAITS and not _is_among(first, self._here):
            self.waits.append(name)
        if name in {"__getitem__", "__setitem__"} and any(isinstance(each, list) for each in _flat(args[1])):
            self.waits.append("a list as an index")
        if given.pop("device", None) is not None and name in {"tensor", "as_tensor"}:
            self.waits.append(name)
        return func(*args, **given)


def _is_among(tensor: Any, tensors: Sequence[Tensor]) -> bool:
    return any(tensor is each for each in tensors)


def _flat(index: Any) -> Sequence[Any]:
    return index if isinstance(index, tuple) else (index,)


def on_device(function: Callable[[], Any]) -> tuple[Any, Sequence[str]]:
    """Run a function on the simulated device. Return its result, and its waits."""
    with PretendedDevice() as device:
        return function(), device.waits
