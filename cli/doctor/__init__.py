"""`sluice doctor`: checks of the machine and of `sluice serve`'s settings, without starting anything."""
