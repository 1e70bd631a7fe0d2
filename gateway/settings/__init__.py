"""The gateway's settings, and `sluice config --gateway`, which prints them."""
