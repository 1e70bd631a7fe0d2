"""Random models of a shape."""

from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig

_DEVICE_MARGIN: Final = 1.2  # the memory to create weights on a device, as a multiple of their bytes


def random_model(config: PreTrainedConfig, dtype: torch.dtype) -> Any:
    """Return a random model of a shape, on the CUDA device if it has enough free memory for it."""
    from_config: Any = AutoModelForCausalLM.from_config
    device = "cpu"
    if torch.cuda.is_available():
        with torch.device("meta"):
            num_bytes = sum(weight.nbytes for weight in from_config(config, dtype=dtype).parameters())
        if torch.cuda.mem_get_info()[0] > _DEVICE_MARGIN * num_bytes:
            device = "cuda"
    with torch.device(device):
        return from_config(config, dtype=dtype)
