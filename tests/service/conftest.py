"""Settings of the tests in this folder."""

import hypothesis

# How long an example takes says nothing: the machine may be busy.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")
