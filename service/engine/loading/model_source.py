"""Facts about a model's folder and the machine that are needed before loading."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from service.engine.config import BLOCK_SIZE
from service.engine.device.device_memory import DeviceMemory
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.rope import longest_alike
from service.engine.models.checkpoint.text_part import text_config
from service.generation.errors import ModelLoadError

MIN_THREADED_PARAMETERS = 50_000_000
_CUDA_BLOCK_SIZE = 256
_ACCELERATORS = [Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd")]
# What configurations call the length that they were trained for, the usual name first.
_LENGTHS = ("max_position_embeddings", "max_seq_len", "seq_length", "max_sequence_length")
_LENGTH_OF_ENDLESS = 8192  # tokens; of models that have no length of their own, where no setting says one
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def choose_device(name: str) -> str:
    """`name` is a torch device or "auto": CUDA if there is one, else the CPU."""
    if name == "cpu" or (name == "auto" and not any(path.exists() for path in _ACCELERATORS)):
        return "cpu"
    import torch  # noqa: PLC0415  it takes seconds, and a model on the CPU may need none of it

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"{name!r} is not a device that torch knows") from error
    return "cpu" if device.type == "cpu" else str(device)


def choose_block_size(device: str) -> int:
    """Tokens of a cache block: on CUDA devices those of a page of torch's attention kernel."""
    return _CUDA_BLOCK_SIZE if device.startswith("cuda") else BLOCK_SIZE


def open_device_memory(device: str) -> DeviceMemory | None:
    """That of an accelerator; None for the CPU."""
    if not device.startswith("cuda"):
        return None
    import torch  # noqa: PLC0415  needless on CPUs

    from service.engine.models.attention.cuda_device import CudaMemory  # noqa: PLC0415

    return CudaMemory(torch.device(device))


def choose_num_threads(checkpoint: Checkpoint, device: str) -> int:
    """One thread for a small model on the CPU, else as many as there are cores for this process.

    A small model's products take microseconds, and threads that wait for each other take longer than they save, the
    more so as the event loop and the other processes want the cores too.
    """
    is_small = checkpoint.num_parameters < MIN_THREADED_PARAMETERS
    return 1 if is_small and device == "cpu" else num_cores()


def choose_max_model_len(model_config: Any, wanted: int | None, folder: Path) -> int:
    """`wanted`, or as much as the model's positions allow."""
    config = text_config(model_config)
    given = (getattr(config, name, None) for name in _LENGTHS)
    longest = next((int(length) for length in given if isinstance(length, int) and length > 0), None)
    if longest is None:  # positions that need no table, or none at all
        return wanted or _LENGTH_OF_ENDLESS
    if (alike := longest_alike(config)) is not None and alike < longest:
        if wanted is not None and wanted > alike:
            raise ModelLoadError(
                f"max_model_len {wanted} exceeds {alike}, the length from which on the rotary positions of {folder} "
                "depend on how long a text becomes"
            )
        longest = alike
    if wanted is not None and wanted > longest:
        raise ModelLoadError(f"max_model_len {wanted} exceeds the context length of {folder}, {longest}")
    return wanted or int(longest)


def longest_text(body: Path, said: int | None, positions: int | None, wanted: int | None) -> int:
    """Of an encoder: `wanted` tokens, or as many as the folder says and it has positions for. Raises ModelLoadError."""
    limits = [limit for limit in (said, positions) if limit is not None]
    if not limits:
        raise ModelLoadError(f"{body}: neither max_seq_length nor max_position_embeddings is given")
    longest = min(limits)
    if wanted is not None and wanted > longest:
        raise ModelLoadError(f"max_model_len {wanted} exceeds the length that {body} takes, {longest}")
    return wanted or longest


def architecture_of(model_config: Any) -> str:
    """The class name that the configuration gives, or its model type."""
    return str((model_config.architectures or [model_config.model_type])[0])


def fingerprint(checkpoint: Checkpoint, weight_type: str, *files: Path, backend: str = "") -> str:
    """Short and stable: the same weights, `files`, type in memory, versions and backend give the same everywhere."""
    versions = (version("sluice"), version("torch"))
    described = (checkpoint.digest(), *(file.read_text() for file in files), weight_type, *versions, backend)
    return hashlib.sha256("\0".join(described).encode()).hexdigest()[:12]


def num_cores() -> int:
    """Cores that this process may use, hyper-threads of one counted once; OMP_NUM_THREADS if that is set."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    places = os.sched_getaffinity(0)
    try:
        return len({Path(_SIBLINGS.format(place)).read_text(encoding="ascii") for place in places})
    except OSError:
        return len(places)
