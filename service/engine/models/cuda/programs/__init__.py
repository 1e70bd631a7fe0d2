"""The programs that Triton compiles for a device. The modules above call them."""
