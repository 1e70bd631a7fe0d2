"""The product with adapters of the demo model, and PEFT's texts of the same adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
from sluice.v1 import adapter_pb2, adapter_pb2_grpc

from tests.e2e.stack import Stack
from tests.engine.folders import peft_adapters
from tests.engine.folders.tiny_models import reload
from tests.waiting import GUARD_S

DEMO = Path("demo/model").resolve()
PROMPT = "<|im_start|>user\nTell me about rivers.<|im_end|>\n<|im_start|>assistant\n"
NUM_TOKENS = 24
TARGETS: dict[str, dict[str, Any]] = {
    "french": {"seed": 1, "std": 0.13},
    "terse": {"seed": 2, "std": 0.2, "r": 2, "target_modules": ["q_proj", "up_proj"]},
}


class Run(NamedTuple):
    """The product with the demo model and one adapter, and a folder with another adapter."""

    stack: Stack
    channel: grpc.Channel
    folder: Path
    expected: dict[str, str]  # PEFT's text by adapter

    def load(self, name: str, path: str = "", model: str = "demo") -> adapter_pb2.Adapter:
        request = adapter_pb2.LoadAdapterRequest(model=model, name=name, path=path or name)
        stub: Any = adapter_pb2_grpc.AdapterServiceStub(self.channel)
        adapter: adapter_pb2.Adapter = stub.LoadAdapter(request).adapter
        return adapter

    def unload(self, name: str, model: str = "demo") -> None:
        request = adapter_pb2.UnloadAdapterRequest(model=model, name=name)
        adapter_pb2_grpc.AdapterServiceStub(self.channel).UnloadAdapter(request)

    @contextmanager
    def loaded(self, name: str) -> Iterator[adapter_pb2.Adapter]:
        adapter = self.load(name)
        try:
            yield adapter
        finally:
            self.unload(name)

    def ids(self) -> list[str]:
        return [each["id"] for each in httpx.get(f"{self.stack.url}/v1/models", timeout=GUARD_S).json()["data"]]

    def text(self, model: str, answering: str = "", **values: Any) -> str:
        """Return a greedy text. `answering` is the model that the answer names, if it is not `model`."""
        body = {"model": model, "prompt": PROMPT, "max_tokens": NUM_TOKENS, "temperature": 0, **values}
        answer = httpx.post(f"{self.stack.url}/v1/completions", json=body, timeout=GUARD_S)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] in {answering or model, f"demo:{model}"}
        text: str = answer.json()["choices"][0]["text"]
        return text


def generated(folder: Path | None) -> str:
    """Return PEFT's greedy text of the adapter merged into the model."""
    import torch  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    model = reload(DEMO, torch.float32) if folder is None else peft_adapters.merged(DEMO, folder)
    prompt = tokenizer.encode(PROMPT).ids
    found = model.generate(torch.tensor([prompt]), max_new_tokens=NUM_TOKENS, do_sample=False)[0]
    text: str = tokenizer.decode(found[len(prompt) :].tolist())
    return text
