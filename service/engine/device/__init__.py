"""Memory of host and device: how much there is, and copies between them."""
