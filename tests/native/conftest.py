"""These tests need native/ to be installed, which takes a C++ compiler; without it there is nothing to test."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("sluice_native") else ["test_*.py"]
