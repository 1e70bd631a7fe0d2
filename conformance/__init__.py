"""The conformance kit, `python -m conformance`: tests any server of a dialect against the dialect's reference."""
