"""The fused decoder of Llama-like models in torch."""
