"""The synthetic conversations that train the demo model; all sentences were written or coined for it."""
