"""The synthetic conversations the demo model is trained on; every sentence is written or coined here."""
