"""The lean decoder of Llama-like models in torch."""
