"""The decoder that computes layer plans in torch: on GPUs, in several processes, and without the native step."""
