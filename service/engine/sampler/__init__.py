"""From logits to tokens: one vectorised pass over all sequences of a step, each with parameters of its own."""

from service.engine.sampler.sampler import Sampler

__all__ = ["Sampler"]
