"""The parts of the decoder's layers in torch: norms, attention, feed-forward parts, experts, and their projections."""
