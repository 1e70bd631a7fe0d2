"""Choose device, threads and lengths for a model before it is loaded, from its folder and the machine."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from process.distribution import installed_version
from service.engine.device.control_groups import cpu_limit
from service.engine.device.device_memory import DeviceMemory
from service.engine.interface.config import BLOCK_SIZE
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.rope import max_stable_positions
from service.engine.models.checkpoint.text_part import text_config
from service.generation.errors import ModelLoadError

MIN_THREADED_PARAMETERS = 50_000_000  # smaller models run faster on one thread
_CUDA_BLOCK_SIZE = 64
# Device files of CUDA, of CUDA on WSL, and of ROCm. Without any, torch need not be imported to look for a device.
_ACCELERATORS = [Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd")]
# The names that configurations use for the trained context length, the most common first.
_LENGTHS = ("max_position_embeddings", "max_seq_len", "seq_length", "max_sequence_length")
_DEFAULT_LENGTH = 8192  # tokens, for models without a length limit if no setting gives one
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def choose_device(name: str) -> str:
    """Resolve a torch device name, or "auto": CUDA if available, otherwise the CPU. Raise ModelLoadError."""
    if name == "cpu" or (name == "auto" and not any(path.exists() for path in _ACCELERATORS)):
        return "cpu"
    import torch  # noqa: PLC0415  the import takes seconds, and a model on the CPU may not need it

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"{name!r} is not a torch device") from error
    return "cpu" if device.type == "cpu" else str(device)


def choose_block_size(device: str) -> int:
    """Return the tokens per cache block: more on CUDA devices, where tables of blocks are copied in each step."""
    return _CUDA_BLOCK_SIZE if device.startswith("cuda") else BLOCK_SIZE


def open_device_memory(device: str) -> DeviceMemory | None:
    """Return the memory of an accelerator, or None for the CPU."""
    if not device.startswith("cuda"):
        return None
    import torch  # noqa: PLC0415  not needed on CPUs

    from service.engine.models.cuda.device import CudaMemory  # noqa: PLC0415

    return CudaMemory(torch.device(device))


def choose_num_threads(checkpoint: Checkpoint, device: str) -> int:
    """Return one thread for a small model on the CPU, otherwise the number of cores of this process.

    The matrix products of a small model take microseconds, so synchronizing threads costs more than it saves,
    especially since the event loop and the other processes need the cores too.
    """
    is_small = checkpoint.num_parameters < MIN_THREADED_PARAMETERS
    return 1 if is_small and device == "cpu" else num_cores()


def choose_max_model_len(model_config: Any, requested: int | None, folder: Path) -> int:
    """Return `requested`, or the model's context length if it is None. Raise ModelLoadError if it is too long."""
    config = text_config(model_config)
    given = (getattr(config, name, None) for name in _LENGTHS)
    longest = next((int(length) for length in given if isinstance(length, int) and length > 0), None)
    if longest is None:  # the model has unlimited positions or none
        return requested or _DEFAULT_LENGTH
    if (stable := max_stable_positions(config)) is not None and stable < longest:
        if requested is not None and requested > stable:
            raise ModelLoadError(
                f"max_model_len {requested} exceeds {stable}, the length from which on the rotary positions of "
                f"{folder} depend on the final length of a text"
            )
        longest = stable
    if requested is not None and requested > longest:
        raise ModelLoadError(f"max_model_len {requested} exceeds the context length of {folder}, {longest}")
    return requested or int(longest)


def choose_max_text_len(body: Path, folder_limit: int | None, positions: int | None, requested: int | None) -> int:
    """Return the maximum tokens of an encoder's text: `requested`, or the lower of its two limits.

    `folder_limit` is the limit that the folder's files set, `positions` the number of the model's position embeddings.
    Raise ModelLoadError if there is no limit, or if `requested` exceeds it.
    """
    limits = [limit for limit in (folder_limit, positions) if limit is not None]
    if not limits:
        raise ModelLoadError(f"{body}: neither max_seq_length nor max_position_embeddings is given")
    longest = min(limits)
    if requested is not None and requested > longest:
        raise ModelLoadError(f"max_model_len {requested} exceeds the maximum length of {body}, {longest}")
    return requested or longest


def architecture_of(model_config: Any) -> str:
    """Return the class name of a model's architecture, such as `LlamaForCausalLM`, or its model type without one."""
    return str((model_config.architectures or [model_config.model_type])[0])


def fingerprint(checkpoint: Checkpoint, weight_type: str, *files: Path, backend: str = "") -> str:
    """Return a short hash of all that determines outputs: weights, `files`, `weight_type`, versions and `backend`.

    Clients see it as the model's fingerprint.
    """
    versions = (installed_version(), version("torch"))
    described = (checkpoint.digest(), *(file.read_text() for file in files), weight_type, *versions, backend)
    return hashlib.sha256("\0".join(described).encode()).hexdigest()[:12]


def num_cores() -> int:
    """Return OMP_NUM_THREADS if it is set, otherwise the physical cores that this process may use.

    More threads than the CPUs of a container's limit would wait for its next period in the middle of a step.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    cpus = os.sched_getaffinity(0)
    limit = cpu_limit() or len(cpus)
    try:
        return min(limit, len({Path(_SIBLINGS.format(cpu)).read_text(encoding="ascii") for cpu in cpus}))
    except OSError:
        return min(limit, len(cpus))
