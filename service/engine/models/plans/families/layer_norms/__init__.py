"""The families with LayerNorm instead of RMSNorm; most compute attention and MLP in parallel."""
