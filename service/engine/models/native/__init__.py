"""The backend of `native/`, the C++ step."""
