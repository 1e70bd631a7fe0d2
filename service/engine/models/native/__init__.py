"""The backend that runs `sluice_native`, the C++ engine in `native/`."""
