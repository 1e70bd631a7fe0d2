"""Hypothesis settings of the tests in this folder."""

import hypothesis

# The duration of an example is not limited: the machine may be busy.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")
