"""From logits to tokens: one vectorised pass over all sequences of a step, each with parameters of its own."""

from service.engine.sampler.torch_sampler import TorchSampler

__all__ = ["TorchSampler"]
