"""Operations: loads and wakes in the background, and what all replicas know of them."""
