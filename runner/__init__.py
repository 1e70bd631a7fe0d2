"""Run the whole product on one machine: `sluice serve`, `python -m runner`."""
